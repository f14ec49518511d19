# SPDX-License-Identifier: MIT
# check: scripts/check-words
# expect: ^src/chan\.c:16: "wake_those_who_wait": use "
echo 'static void wake_those_who_wait(void);' >>src/chan.c
