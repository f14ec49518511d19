/* SPDX-License-Identifier: MIT */
/*
 * Replaces the functions that give a thread's id to the kernel: no kernel thread belongs to a green
 * thread.
 *
 *   signals      of pthread_kill and raise with a handler, or that the thread blocks: kill.c.
 *                Others are sent to the OS thread that runs the green thread, if one does,
 *                otherwise to the process
 *   CPU clock    ENOENT: the CPU time of a green thread is not known to the kernel
 *   affinity     stored nowhere: all CPUs of the process; to set it has no effect
 *   scheduling   SCHED_OTHER, SCHED_BATCH and SCHED_IDLE are stored and have no effect; the
 *                real-time policies are EPERM
 *   name         the record has it, and dumps show it
 *   stack        that of the green thread
 */
#include <string.h>
#include <sys/syscall.h>

#include "base/lock.h"
#include "base/os.h"
#include "enter.h"
#include "g.h"
#include "m.h"
#include "posix/call/user.h"
#include "posix/signal/kill.h"
#include "posix/signal/mask.h"
#include "posix/signal/receiver.h"
#include "posix/signal/siginfo.h"
#include "posix/thread/registry.h"

/* With the table's lock: the thread, or NULL.  In the child of a fork also its first thread before
 * the runtime starts, whose id the kernel does not know either. */
static struct thread *find(pthread_t self)
{
	struct thread *t = thread_find(self), *first = forked_thread();

	return !t && first && first->self == self ? first : t;
}

enum { SIGNALS = 64, FIRST_OF_LIBC = 32, LAST_OF_LIBC = 33 };

/* --- signals --- */

int thread_runs_on(const struct g *gp)
{
	uint64_t ran_from;
	int64_t since;
	int tid = 0;

	if (handler_runs()) /* it may have interrupted the holder of the lock */
		return m_of_running(gp, &tid, &since, &ran_from) ? tid : 0;
	lock(&sched.lock, LR_SCHED);
	for (const struct m *m = sched.allm; m && !tid; m = m->alllink)
		if (ld_rlx(&m->curg) == gp)
			tid = ld_rlx(&m->tid);
	unlock(&sched.lock, LR_SCHED);
	return tid;
}

static int send_signal(int tid, int sig, const union sigval *value)
{
	siginfo_t info = siginfo_make_sig(sig, SI_QUEUE);
	pid_t pid = getpid();
	long err;

	if (value)
		info.si_value = *value;
	int before = errno;

	/* SI_QUEUE does not tell that the signal is for one thread (RECEIVER-5) */
	if (tid && value && signal_action(sig) == ACTION_HANDLER)
		err = siginfo_send_for_thread_sig(tid, sig, &info);
	else if (tid && value)
		err = siginfo_send_plain_sig(tid, sig, &info);
	else if (tid)
		err = syscall(SYS_tgkill, pid, tid, sig);
	else if (value)
		err = siginfo_send_plain_sig(0, sig, &info);
	else
		err = LIBC(kill)(pid, sig);
	err = err ? errno : 0;
	errno = before;
	return (int)err;
}

static bool is_valid(int sig)
{
	return sig >= 0 && sig <= SIGNALS && (sig < FIRST_OF_LIBC || sig > LAST_OF_LIBC);
}

/* What becomes of a signal for a thread of the table. */
struct signal_send {
	int sig;
	enum signal_action action;
	bool by_kill; /* it may become pending for the thread: kill.c */
	/* set by find_target */
	bool ended, kept; /* the thread has ended; the signal is pending for it, or err is not 0 */
	int err;          /* of kill_add */
	int tid;          /* of the OS thread that runs the thread, or 0 */
};

/* Returns false if there is no such thread. */
static bool find_target(pthread_t self, struct signal_send *s)
{
	threads_lock();
	struct thread *t = find(self);

	s->ended = t && t->state == THREAD_ENDED;
	s->kept = t && !s->ended && s->by_kill && t != forked_thread() &&
		  kill_takes(t, s->sig, s->action);
	if (s->kept)
		s->err = kill_add(t, s->sig);
	else if (t && !s->ended)
		s->tid = thread_runs_on(t->g);
	threads_unlock();
	return t;
}

/* Returns 0, an errno value or NOT_GREEN. */
static int signal_thread(pthread_t self, int sig, const union sigval *value)
{
	struct signal_send s = { .sig = sig, .by_kill = is_valid(sig) && sig && !value };

	if (s.by_kill) {
		if (hook_how() == HOOK_PARK)
			receiver_begin();
		s.action = signal_action(sig);
	}
	if (!find_target(self, &s))
		return NOT_GREEN;
	if (!is_valid(sig))
		return EINVAL;
	if (s.kept)
		return s.err;
	return s.ended || sig == 0 ? 0 : send_signal(s.tid, sig, value);
}

/* Returns false if the signal is not kept for the caller: libc sends it. */
static bool signal_self(int sig)
{
	if (!is_valid(sig) || !sig)
		return false;
	if (hook_how() == HOOK_PARK && mask_to_inherit() & mask_bit(sig))
		receiver_begin(); /* it becomes pending: kill_takes */
	return kill_self(sig);
}

HOOK int pthread_kill(pthread_t self, int sig)
{
	int err = NOT_GREEN;

	if (self != pthread_self())
		err = signal_thread(self, sig, NULL);
	else if (signal_self(sig))
		err = 0;
	return err == NOT_GREEN ? LIBC(pthread_kill)(self, sig) : err;
}

HOOK int raise(int sig)
{
	return signal_self(sig) ? 0 : LIBC(raise)(sig);
}

HOOK int pthread_sigqueue(pthread_t self, int sig, const union sigval value)
{
	int err = signal_thread(self, sig, &value);

	if (err != NOT_GREEN)
		return err;
	if (self != pthread_self() || !own_green())
		return LIBC(pthread_sigqueue)(self, sig, value);
	/* not in the table: main of gmp_run, or a green thread of gmp_spawn */
	return !is_valid(sig) ? EINVAL : sig ? send_signal(os_thread_id(), sig, &value) : 0;
}

/* --- names --- */

static int set_name(struct thread *t, const char *name)
{
	size_t n = strlen(name);

	if (n >= THREAD_NAME)
		return ERANGE;
	memcpy(t->name, name, n + 1);
	if (t->state != THREAD_ENDED)
		g_set_name(t->g, name);
	return 0;
}

HOOK int pthread_setname_np(pthread_t self, const char *name)
{
	threads_lock();
	struct thread *t = thread_find(self);
	int err = t ? set_name(t, name) : 0;

	threads_unlock();
	return t ? err : LIBC(pthread_setname_np)(self, name);
}

HOOK int pthread_getname_np(pthread_t self, char *to, size_t n)
{
	char name[THREAD_NAME];

	threads_lock();
	const struct thread *t = thread_find(self);

	if (t)
		memcpy(name, t->name, sizeof(name));
	threads_unlock();
	if (!t)
		return LIBC(pthread_getname_np)(self, to, n);
	if (n < THREAD_NAME)
		return ERANGE;
	if (!name[0]) {
		strncpy(name, program_invocation_short_name, sizeof(name) - 1);
		name[sizeof(name) - 1] = '\0';
	}
	return user_write(to, name, sizeof(name)) ? 0 : EFAULT;
}

/* --- scheduling --- */

static bool is_green(pthread_t self)
{
	threads_lock();
	const struct thread *t = find(self);

	threads_unlock();
	return t != NULL;
}

HOOK int pthread_getcpuclockid(pthread_t self, clockid_t *clock)
{
	return is_green(self) ? ENOENT : LIBC(pthread_getcpuclockid)(self, clock);
}

/* The affinity of the process's first OS thread. */
static int process_affinity(size_t n, cpu_set_t *set)
{
	int before = errno, err = sched_getaffinity(getpid(), n, set) ? errno : 0;

	errno = before;
	return err;
}

HOOK int pthread_setaffinity_np(pthread_t self, size_t n, const cpu_set_t *set)
{
	if (!is_green(self))
		return LIBC(pthread_setaffinity_np)(self, n, set);
	cpu_set_t all, both;

	CPU_ZERO(&all);
	CPU_ZERO(&both);
	int err = process_affinity(sizeof(all), &all);

	if (err)
		return err;
	if (!user_read(&both, set, min_of(n, sizeof(both))))
		return EFAULT;
	CPU_AND(&both, &both, &all);
	return CPU_COUNT(&both) ? 0 : EINVAL;
}

HOOK int pthread_getaffinity_np(pthread_t self, size_t n, cpu_set_t *set)
{
	if (!is_green(self))
		return LIBC(pthread_getaffinity_np)(self, n, set);
	return process_affinity(n, set);
}

/* As the kernel reads it.  Not inlined: pthread.h declares that param is not NULL. */
static noinline int read_param(struct sched_param *to, const void *param)
{
	if (!param)
		return EINVAL;
	return user_read(to, param, sizeof(*to)) ? 0 : EFAULT;
}

HOOK int pthread_setschedparam(pthread_t self, int policy, const struct sched_param *param)
{
	if (!is_green(self))
		return LIBC(pthread_setschedparam)(self, policy, param);
	int least = sched_get_priority_min(policy), most = sched_get_priority_max(policy);
	struct sched_param p;

	int err = read_param(&p, param);

	if (err)
		return err;
	bool valid = least >= 0 && p.sched_priority >= least && p.sched_priority <= most;
	bool stored = policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE;

	threads_lock();
	struct thread *t = find(self);

	if (t && valid && stored)
		st_rlx(&t->policy, policy);
	threads_unlock();
	if (!valid)
		return EINVAL;
	return stored ? 0 : EPERM;
}

HOOK int pthread_getschedparam(pthread_t self, int *policy, struct sched_param *param)
{
	threads_lock();
	const struct thread *t = find(self);
	int stored = t ? ld_rlx(&t->policy) : SCHED_OTHER;

	threads_unlock();
	if (!t)
		return LIBC(pthread_getschedparam)(self, policy, param);
	*policy = stored;
	param->sched_priority = 0;
	return 0;
}

/* --- attributes --- */

/* The G of self with its stack: that of a thread in the table, or the caller.  NULL: neither. */
static struct g *g_of(pthread_t self, int *state)
{
	const struct thread *t = find(self);
	struct m *m = getm();

	*state = t && t->state == THREAD_JOINABLE ? PTHREAD_CREATE_JOINABLE
						  : PTHREAD_CREATE_DETACHED;
	if (t)
		return t->state == THREAD_ENDED ? NULL : t->g;
	if (self == pthread_self() && m && m->curg && m->curg->resume & RESUME_OWN_TLS)
		return m->curg;
	return NULL;
}

HOOK int pthread_getattr_np(pthread_t self, pthread_attr_t *attr)
{
	char *stack = NULL;
	size_t size = 0;
	int state;

	threads_lock();
	const struct g *gp = g_of(self, &state);

	if (gp) {
		stack = ld_rlx(&gp->stack);
		size = (size_t)1 << (gp->stack_class ? gp->stack_class : sched.stack_class);
	}
	threads_unlock();
	if (!gp)
		return LIBC(pthread_getattr_np)(self, attr);
	int err = pthread_attr_init(attr);

	if (!err)
		err = stack ? pthread_attr_setstack(attr, stack, size)
			    : pthread_attr_setstacksize(attr, size);
	if (!err)
		err = pthread_attr_setguardsize(attr, STACK_GUARD);
	if (!err)
		err = pthread_attr_setdetachstate(attr, state);
	return err;
}
