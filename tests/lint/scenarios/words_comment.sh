# SPDX-License-Identifier: MIT
# check: scripts/check-words
# expect: ^src/chan\.c:16: "who": use "
echo '/* Frees it for the waiter, who is gone. */' >>src/chan.c
