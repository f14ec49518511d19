/* SPDX-License-Identifier: MIT */
/*
 * Waiting for child processes.
 *
 * The end of one child is a wait for a descriptor: its pidfd becomes readable, and the try is waitpid(2)
 * with WNOHANG.  For any child (-1, 0, a group), for stops, and where the system gives no pidfd (an old
 * kernel, a filter, no descriptors left) there is nothing to poll: gmp_waitpid calls waitpid in blocking
 * code, and gmp_waitpid_until, which may not stay in the kernel beyond its deadline, asks again after
 * naps of 1 to 16 ms.
 *
 * Invariants
 *  I1 The child is asked about before the first wait and after each: who comes late, or shares it with
 *     others, hears what waitpid says (-ECHILD).
 *  I2 Each pidfd is a leftover while its caller waits, so that the end of a run closes those of green
 *     threads that are dropped there.
 *  I3 An external thread is not inside the runtime (rt_enter) while it is in a waitpid that may sleep.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/cleanup.h"
#include "io/fd.h"
#include "park.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

struct child {
	pid_t pid;
	int *status;
	int flags;
	int pidfd;
	struct leftover left;
};

static void close_pidfd(struct leftover *l)
{
	close(container_of(l, struct child, left)->pidfd);
}

/* pid, 0, or -errno. */
static pid_t ask(const struct child *c, int flags)
{
	pid_t pid;
	int status;

	do
		pid = waitpid(c->pid, &status, c->flags | flags);
	while (pid < 0 && errno == EINTR);
	if (pid > 0 && c->status)
		*c->status = status;
	return pid < 0 ? -errno : pid;
}

static ssize_t call_ask(int fd, const struct io_args *a)
{
	pid_t pid = ask(a->buf, WNOHANG);

	(void)fd;
	return pid ? pid : -EAGAIN;
}

/* The pid, -errno, or -EAGAIN: there is no pidfd. */
static pid_t wait_polled(struct child *c, int64_t deadline)
{
	if (c->pid <= 0 || c->flags)
		return -EAGAIN;
	c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (c->pidfd < 0 || fd_register(c->pidfd, false) < 0) /* which closes it */
		return -EAGAIN;
	leftover_add(&c->left, close_pidfd);
	ssize_t pid = fd_call(c->pidfd, SIDE_READ, call_ask, &(struct io_args){ c, 0 }, deadline);

	if (gmp_close(c->pidfd) == -ESRCH) /* the runtime stops: its record goes with it */
		close(c->pidfd);
	leftover_del(&c->left);
	return (pid_t)pid;
}

static pid_t wait_blocking(const struct child *c)
{
	gmp_block_enter();
	pid_t pid = ask(c, 0);

	gmp_block_leave();
	return pid;
}

/* The caller counts as a waiter for a descriptor, so that the clock does not jump over the naps in virtual
 * time.  If shutdown kills it there, the count is one too high until the run has ended. */
static pid_t wait_napping(const struct child *c, int64_t deadline)
{
	int64_t nap = 0;
	pid_t pid;

	do {
		netpoll_add_waiter();
		int err = fd_nap(&nap, deadline);

		add_rlx(&sched.npollwait, -1u);
		pid = err ? err : ask(c, WNOHANG);
	} while (pid == 0);
	return pid;
}

pid_t gmp_waitpid(pid_t pid, int *status, int flags)
{
	struct child c = { .pid = pid, .status = status, .flags = flags };

	if (!rt_enter())
		return -ESRCH;
	cancel_hold();
	pid_t result = ask(&c, WNOHANG);
	bool blocking = false;

	if (result == 0 && !(flags & WNOHANG)) {
		result = wait_polled(&c, NEVER);
		blocking = result == -EAGAIN;
	}
	rt_leave(); /* I3 */
	if (blocking)
		result = wait_blocking(&c);
	cancel_release();
	return result;
}

pid_t gmp_waitpid_until(pid_t pid, int *status, int flags, int64_t deadline)
{
	struct child c = { .pid = pid, .status = status, .flags = flags };

	if (!rt_enter())
		return -ESRCH;
	pid_t result = ask(&c, WNOHANG);

	if (result == 0 && !(flags & WNOHANG)) {
		result = too_late(deadline);
		if (!result)
			result = wait_polled(&c, deadline);
		if (result == -EAGAIN)
			result = wait_napping(&c, deadline);
	}
	rt_leave();
	return result;
}
