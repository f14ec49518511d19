# SPDX-License-Identifier: MIT
# check: scripts/docs --check
# expect: ^docs/map\.md: the list files is not up to date; run \./dev docs$
sed -i 's/Bounded FIFO channel/Unbounded channel/' src/chan.c
