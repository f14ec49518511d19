/* SPDX-License-Identifier: MIT */
/*
 * Replaces the functions that give a thread's id to the kernel, except to send signals: no kernel
 * thread belongs to a green thread.
 *
 *   CPU clock    ENOENT: the CPU time of a green thread is not known to the kernel
 *   affinity     stored nowhere: all CPUs of the process; to set it has no effect
 *   scheduling   SCHED_OTHER, SCHED_BATCH and SCHED_IDLE are stored and have no effect; the
 *                real-time policies are EPERM
 *   name         the record has it, and dumps show it
 *   stack        that of the green thread
 */
#include <string.h>

#include "posix/call/user.h"
#include "posix/thread/registry.h"

/* --- names --- */

static int set_name(struct thread *t, const char *name)
{
	size_t n = strlen(name);

	if (n >= THREAD_NAME)
		return ERANGE;
	memcpy(t->name, name, n + 1);
	if (t->state != THREAD_ENDED)
		green_set_name(t->g, name);
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
	const struct thread *t = thread_find_or_first(self);

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
	struct thread *t = thread_find_or_first(self);

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
	const struct thread *t = thread_find_or_first(self);
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
	const struct thread *t = thread_find_or_first(self);
	struct g *gp = running_green();

	*state = t && t->state == THREAD_JOINABLE ? PTHREAD_CREATE_JOINABLE
						  : PTHREAD_CREATE_DETACHED;
	if (t)
		return t->state == THREAD_ENDED ? NULL : t->g;
	return self == pthread_self() && gp && green_has_own_tls(gp) ? gp : NULL;
}

HOOK int pthread_getattr_np(pthread_t self, pthread_attr_t *attr)
{
	char *stack = NULL;
	size_t size = 0;
	int state;

	threads_lock();
	const struct g *gp = g_of(self, &state);

	if (gp)
		stack = green_stack(gp, &size);
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
