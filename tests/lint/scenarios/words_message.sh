# SPDX-License-Identifier: MIT
# check: scripts/check-words
# expect: ^src/mode/vtime\.c:6: "nobody": use "
sed -i 's/the clock does not advance/nobody advances the clock/' src/mode/vtime.c
