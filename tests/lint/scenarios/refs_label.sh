# SPDX-License-Identifier: MIT
# check: scripts/check-refs
# expect: ^src/chan\.c:6: CHAN-1 is a label at posix/chan\.c:5$
mkdir posix
cat >posix/chan.c <<'END'
/*
 * Queues of libc.
 *
 * Invariants
 *   CHAN-1  A waiter of libc is in one queue.
 */
END
