# SPDX-License-Identifier: MIT
# check: scripts/docs --check
# expect: ^docs/map\.md: the list invariants is not up to date; run \./dev docs$
sed -i 's/^| CHAN |/| CHANNEL |/' docs/map.md
