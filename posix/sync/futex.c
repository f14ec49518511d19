/* SPDX-License-Identifier: MIT */
/*
 * Futexes: calls of syscall(SYS_futex, ...), by which programs and languages make their own locks.
 *
 * A private FUTEX_WAIT of a green thread with own thread-locals parks (parked.h): the word takes
 * the place of libc's object, and the compare of the kernel is the try.  All other waiters sleep in
 * the kernel: OS threads, blocking code, and waits on shared words, which another process may wake.
 * The operations that wake are replaced for all threads.
 *
 *   operation                         parked green threads             the kernel
 *   FUTEX_WAKE, FUTEX_WAKE_BITSET     the first n                      then n minus those
 *   FUTEX_REQUEUE and _CMP_REQUEUE    wakes all that would be          first
 *                                     woken or moved
 *   FUTEX_WAKE_OP                     the first n and n2 of the two    first
 *                                     words, whatever the compare says
 *
 * n is 1 if the call says 0 or less, except for a requeue.
 *
 * Invariants
 *   FUTEX-1  No lost wakeup: PARKED-1, with the program's own store to the word before step 1 of
 *            the waker.  For the operations that go to the kernel first, that is the kernel's
 *            compare or store.
 *   FUTEX-2  No operation counts a waiter twice.  FUTEX_WAKE and FUTEX_WAKE_BITSET end at most n
 *            waits, a requeue ends or moves at most the sum of both numbers.  FUTEX_WAKE_OP ends at
 *            most n waits of each kind, since the kernel returns one sum for both words: the
 *            others are spurious wakeups.  From a signal handler sysmon wakes all parked waiters
 *            (LATER-2), and they are not counted.
 *   FUTEX-3  A wait that was claimed returns 0, also if its deadline has passed.
 *   -        Private and shared operations on a word do not meet, as in the kernel.
 *   FUTEX-5  A word or a timeout that cannot be read is EFAULT.  The kernel is asked once for each
 *            page (is_readable).  A page that is unmapped after that is SIGSEGV.
 *
 * Green threads are woken before OS threads.  The kernel wakes waiters of one priority in FIFO
 * order, but futex(2) promises no order.
 *
 * Verified by model/futex.pml.
 *
 * Rejected
 *   Asking the kernel in each wait: 176 ns.  A round trip of two waits and two wakes takes 156 ns.
 *
 * A wait with a bitset other than all bits, and the operations for priority inheritance, are
 * blocking code.  Calls that a program makes without libc's syscall() are not seen: a wait by them
 * blocks its OS thread, and a wake by them wakes no parked green thread.
 */
#include "posix/sync/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include "posix/call/user.h"
#include "posix/sync/parked.h"

struct futex_call {
	uint32_t *word;
	int op;
	uint32_t val;
	const struct timespec *timeout; /* or val2, of the operations that wake */
	uint32_t *word2;
	uint32_t val3;
};

static long in_kernel(const struct futex_call *c)
{
	return LIBC(syscall)(SYS_futex, c->word, c->op, c->val, c->timeout, c->word2, c->val3);
}

/* --- waits --- */

/* Pages that the kernel has read, with bit 0 set.  The sizes are not measured: 4 KiB of memory, for
 * the words and stacks of a few hundred waiters. */
enum { PAGES = 512 };
static uintptr_t readable_pages[PAGES]; /* (a) FUTEX-5 */

static bool is_readable(uintptr_t at)
{
	uintptr_t page = (at & -(uintptr_t)PAGE) | 1, *entry = &readable_pages[at / PAGE % PAGES];

	if (likely(ld_rlx(entry) == page))
		return true;
	if (!user_reads((const void *)at, 1))
		return false;
	st_rlx(entry, page);
	return true;
}

/* Returns false if the kernel calls it EINVAL or EFAULT. */
static bool is_valid_timeout(const struct timespec *t)
{
	return !t ||
	       (is_readable((uintptr_t)t) && is_readable((uintptr_t)(t + 1) - 1) && is_duration(t));
}

/* A private wait for all bits.  FUTEX_WAIT by CLOCK_REALTIME is the kernel's: ENOSYS, except in
 * versions from 4.5 on that accepted it. */
static bool is_parkable(const struct futex_call *c)
{
	int command = c->op & FUTEX_CMD_MASK;

	return c->op & FUTEX_PRIVATE_FLAG &&
	       ((command == FUTEX_WAIT && !(c->op & FUTEX_CLOCK_REALTIME)) ||
		(command == FUTEX_WAIT_BITSET && c->val3 == FUTEX_BITSET_MATCH_ANY));
}

/* Whether a green thread parks.  If the kernel would return an error at once, it is asked. */
static bool parks(const struct futex_call *c)
{
	return is_parkable(c) && (uintptr_t)c->word % sizeof(uint32_t) == 0 &&
	       is_readable((uintptr_t)c->word) && is_valid_timeout(c->timeout);
}

/* The timeout of FUTEX_WAIT is relative, that of FUTEX_WAIT_BITSET absolute. */
static int64_t deadline_of(const struct futex_call *c)
{
	if ((c->op & FUTEX_CMD_MASK) == FUTEX_WAIT)
		return deadline_after(c->timeout);
	return deadline_at(c->op & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC,
			   c->timeout);
}

/* Returns 0 while a waiter waits. */
static int compare_word(void *call)
{
	const struct futex_call *c = call;

	return ld_rlx(c->word) == c->val ? 0 : EAGAIN;
}

static long futex_park(struct futex_call *c)
{
	int saved = errno, err;

	chaos_point();
	if (compare_word(c))
		return hook_return(-EAGAIN);
	const struct park_wait w = {
		.key = futex_key(c->word),
		.why = WAIT_FUTEX | UNCANCELLABLE,
		.due = NEVER,
		.unwait = parked_unwait,
		.deadline = deadline_of(c),
	};

	do
		err = HANDLER_WAIT(parked_once(&w, compare_word, c, 0));
	while (err == EINTR && !c->timeout && handler_restarts());
	errno = saved;
	return hook_return(-err);
}

static long futex_wait(struct futex_call *c)
{
	return hook_parks() && parks(c) ? futex_park(c) : HOOK_BLOCKING(in_kernel(c));
}

/* --- wakeups --- */

/* Steps 2 to 5 of the waker in parked.h, for the first n waiters.  Returns how many were woken. */
static unsigned wake_parked(const struct futex_call *c, const uint32_t *word, unsigned n)
{
	return c->op & FUTEX_PRIVATE_FLAG ? parked_wake(futex_key(word), n) : 0;
}

/* How many a wake ends at most: the kernel wakes one if n is not positive. */
static unsigned most_of(uint32_t n)
{
	return (unsigned)max_of((int)n, 1);
}

static bool is_invalid_wake(const struct futex_call *c)
{
	return c->op & FUTEX_CLOCK_REALTIME ||
	       ((c->op & FUTEX_CMD_MASK) == FUTEX_WAKE_BITSET && !c->val3);
}

static long futex_wake(struct futex_call *c)
{
	int saved = errno;
	unsigned n = most_of(c->val), woken;

	if (is_invalid_wake(c))
		return in_kernel(c);
	woken = wake_parked(c, c->word, n);
	if (woken == n)
		return n;
	c->val = n - woken;
	long more = in_kernel(c);

	if (more >= 0 || !woken)
		return woken + more;
	errno = saved;
	return woken;
}

/* n: how many waiters, at most, the kernel wakes or moves by each of both numbers. */
static unsigned sum_of(uint32_t n, uintptr_t n2)
{
	return (unsigned)min_of((uint64_t)n + (uint32_t)n2, (uint64_t)INT_MAX);
}

static long futex_requeue(const struct futex_call *c)
{
	long done = in_kernel(c);

	if (done < 0)
		return done;
	return done +
	       wake_parked(c, c->word, sum_of(c->val, (uintptr_t)c->timeout) - (unsigned)done);
}

static long futex_wake_op(const struct futex_call *c)
{
	long done = in_kernel(c);

	if (done < 0)
		return done;
	done += wake_parked(c, c->word, most_of(c->val));
	return done + wake_parked(c, c->word2, most_of((uint32_t)(uintptr_t)c->timeout));
}

long futex_call(const unsigned long *a)
{
	struct futex_call c = {
		.word = (uint32_t *)a[0],
		.op = (int)a[1],
		.val = (uint32_t)a[2],
		.timeout = (const struct timespec *)a[3],
		.word2 = (uint32_t *)a[4],
		.val3 = (uint32_t)a[5],
	};

	switch (c.op & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
	case FUTEX_WAIT_REQUEUE_PI: return futex_wait(&c);
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET: return futex_wake(&c);
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE: return futex_requeue(&c);
	case FUTEX_WAKE_OP: return futex_wake_op(&c);
	default: return in_kernel(&c);
	}
}
