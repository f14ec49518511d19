# SPDX-License-Identifier: MIT
# check: scripts/check-budgets
# expect: ^scripts/budgets\.tsv: head src/chan\.c has 6 lines$
printf 'head\tsrc/chan.c\t70\tit has a protocol\n' >>scripts/budgets.tsv
