# SPDX-License-Identifier: MIT
# check: scripts/check-refs
# expect: ^src/chan\.c:6: nothing names CHAN-1: write "-"$
sed -i 's/ \/\* CHAN-1 \*\///' src/chan.c
