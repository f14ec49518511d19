# SPDX-License-Identifier: MIT
# check: scripts/check-budgets
# expect: ^src/chan\.c:6: label CHAN-1: 7 lines instead of 6 at most$
for _ in {1..6}; do sed -i 's/^ \*   CHAN-1 .*/&\n *           A waiter is queued only if it waits./' src/chan.c; done
