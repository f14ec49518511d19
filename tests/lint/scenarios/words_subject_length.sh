# SPDX-License-Identifier: MIT
# check: scripts/check-words --since base
# expect: ^commit [0-9a-f]+: 61 characters instead of 60$
commit "chan: wake each waiter of a closed channel, in the FIFO order"
