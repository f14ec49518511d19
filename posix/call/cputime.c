/* SPDX-License-Identifier: MIT */
/*
 * Replaces clock_gettime and getrusage for the calling thread alone: the CPU time of a green
 * thread (CLOCK_THREAD_CPUTIME_ID, RUSAGE_THREAD).
 *
 * The kernel counts the time of OS threads.  From the first such call of a green thread on, its
 * waits and yields stop its clock: it shows the time of its OS thread plus an offset, which changes
 * when the green thread may have changed its OS thread.
 *
 *   the call                           a wait, a yield, and the end of blocking code
 *    1 now = times of the OS thread     a before: last = times of the OS thread + offset
 *    2 another OS thread than noted?    b after: offset = last - times of the OS thread, which is
 *      as b                               noted
 *    3 last = now + offset, the result
 *
 * Invariants
 *   -          The clock of a thread never goes backwards: that of an OS thread does not, and at a
 *              change the offset continues from `last`.
 *   -          For threads that make no such call nothing is added to a wait except a load and a
 *              branch.
 *   CPUTIME-3  Both calls have a clock of their own, so a seccomp filter that refuses one leaves
 *              the other as it was.  If step a fails, the time since the last step is missing.  If
 *              step b fails, the clock has no thread, so the next step 2 does as b.
 *
 * The first call shows the time of the OS thread, which has run other green threads, too; what the
 * caller has used on others is missing.  Time during a wait of a gmp_ function (2) counts if the
 * green thread continues on the same OS thread.
 *
 * Rejected
 *   The clock of GMP_DEBUG=cputime: it counts time without a CPU, and costs 20 ns for each switch.
 */
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/os.h"
#include "posix/call/hook.h"

/* The tid of no thread: CPUTIME-3. */
enum { NO_THREAD = -1 };

static int64_t ns_of(const struct timeval *t)
{
	return (int64_t)t->tv_sec * S + (int64_t)t->tv_usec * US;
}

static struct timeval timeval_of(int64_t ns)
{
	return (struct timeval){ ns / S, ns % S / US };
}

/* The times of the OS thread.  Returns 0 or a negative errno value; leaves errno. */
static int read_times(enum cpu_clock_kind kind, struct cpu_times *now)
{
	struct timespec t = { 0 };
	struct rusage r = { 0 };
	int saved = errno, err = 0;

	if (kind == CPU_CLOCK ? LIBC(clock_gettime)(CLOCK_THREAD_CPUTIME_ID, &t)
			      : LIBC(getrusage)(RUSAGE_THREAD, &r))
		err = -errno;
	*now = (struct cpu_times){ (int64_t)t.tv_sec * S + t.tv_nsec, ns_of(&r.ru_utime),
				   ns_of(&r.ru_stime) };
	errno = saved;
	return err;
}

static struct cpu_times sum(struct cpu_times a, struct cpu_times b)
{
	return (struct cpu_times){ a.all + b.all, a.user + b.user, a.system + b.system };
}

/* Step b. */
static void rebase(struct cpu_clock *c, struct cpu_times now)
{
	c->offset = (struct cpu_times){ c->last.all - now.all, c->last.user - now.user,
					c->last.system - now.system };
	c->tid = os_thread_id();
}

void gmp__cputime_stop(void)
{
	struct cpu_times now;

	for (int i = 0; i < CPU_CLOCKS; i++) {
		struct cpu_clock *c = &gmp__signal_state()->cpu[i];

		if (c->tid && c->tid == os_thread_id() &&
		    read_times((enum cpu_clock_kind)i, &now) == 0)
			c->last = sum(now, c->offset);
	}
}

void gmp__cputime_start(void)
{
	struct cpu_times now;

	for (int i = 0; i < CPU_CLOCKS; i++) {
		struct cpu_clock *c = &gmp__signal_state()->cpu[i];

		if (!c->tid)
			continue;
		if (read_times((enum cpu_clock_kind)i, &now))
			c->tid = NO_THREAD; /* CPUTIME-3 */
		else
			rebase(c, now);
	}
}

/* Steps 1 to 3.  Returns 0, with *own, or a negative errno value. */
static int own_times(enum cpu_clock_kind kind, struct cpu_times *own)
{
	struct cpu_clock *c = &gmp__signal_state()->cpu[kind];
	struct cpu_times now;
	int err = read_times(kind, &now);

	if (err)
		return err;
	if (!c->tid) {
		or_rlx(&gmp__signals_used, (uint32_t)USED_CLOCKS);
		c->tid = os_thread_id();
	} else if (c->tid != os_thread_id()) {
		rebase(c, now);
	}
	*own = c->last = sum(now, c->offset);
	return 0;
}

/* The clock of the child of a fork is its OS thread's, also when that becomes a green thread. */
static void forget_clocks(void)
{
	memset(gmp__signal_state()->cpu, 0, sizeof(gmp__signal_state()->cpu));
}

IN_FORK_CHILD(forget_clocks)

HOOK int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (likely(clock != CLOCK_THREAD_CPUTIME_ID) || !hook_has_own_tls())
		return LIBC(clock_gettime)(clock, t);
	struct cpu_times own;

	if (LIBC(clock_gettime)(clock, t)) /* EFAULT */
		return -1;
	int err = own_times(CPU_CLOCK, &own);

	if (!err)
		*t = (struct timespec){ own.all / S, own.all % S };
	return (int)hook_return(err);
}

HOOK int getrusage(int who, struct rusage *usage)
{
	struct cpu_times own;
	int err = LIBC(getrusage)(who, usage);

	if (err || who != RUSAGE_THREAD || !hook_has_own_tls())
		return err;
	err = own_times(CPU_USAGE, &own);
	if (!err) {
		usage->ru_utime = timeval_of(own.user);
		usage->ru_stime = timeval_of(own.system);
	}
	return (int)hook_return(err);
}
