# SPDX-License-Identifier: MIT
# check: scripts/check-columns
# expect: ^src/chan\.c:16: 101 columns instead of 100 at most$
printf '\t/*%89s*/\n' '' >>src/chan.c
