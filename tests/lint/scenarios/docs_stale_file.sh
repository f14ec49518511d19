# SPDX-License-Identifier: MIT
# check: scripts/docs --check
# expect: ^docs/map\.md: the list models is not up to date; run \./dev docs$
cp model/park.pml model/chan.pml
