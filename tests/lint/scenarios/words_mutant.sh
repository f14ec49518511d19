# SPDX-License-Identifier: MIT
# check: scripts/check-words
# expect: ^tests/mutants/chan\.txt:1: "in vain": use "
mkdir tests/mutants
printf 'fault    a waiter wakes in vain\nin       chan_send\nreplace  `who` with `0`\n' \
	>tests/mutants/chan.txt
