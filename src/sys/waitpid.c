/* SPDX-License-Identifier: MIT */
/*
 * gmp_waitpid: waits for child processes through a pidfd, or in a blocking section.
 *
 * The end of one child is an fd_call: its pidfd becomes readable, and the attempt is waitpid(2)
 * with WNOHANG.  There is nothing to poll for any child (-1, 0, a process group), for stops, and if
 * the system gives no pidfd (an old kernel, a filter, no fd left).  Then gmp_waitpid calls waitpid
 * in a blocking section; gmp_waitpid_until, which must not stay in the kernel beyond its deadline,
 * polls with a backoff of 1 to 16 ms.
 *
 * Invariants
 *   -          The child is polled before the first wait and after each, so a late caller, or a
 *              caller that shares the child, gets what waitpid returns (-ECHILD).
 *   -          Each pidfd is a leftover while its caller waits, so shutdown closes those of killed
 *              Gs.
 *   WAITPID-3  An external thread is not inside the runtime (rt_enter) during a waitpid that may
 *              block.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os.h"
#include "enter.h"
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

static void close_pidfd(void *child)
{
	int fd = ((struct child *)child)->pidfd;

	os_fd_set_own(fd, false);
	close(fd);
}

/* waitpid with additional flags.  Returns the pid, 0, or -errno. */
static pid_t call_waitpid(const struct child *c, int flags)
{
	int status;
	pid_t pid = os_retry(waitpid(c->pid, &status, c->flags | flags));

	if (pid > 0 && c->status)
		*c->status = status;
	return pid;
}

/* One attempt as an io_call. */
static ssize_t call_waitpid_nohang(int fd, const struct io_args *a)
{
	pid_t pid = call_waitpid(a->buf, WNOHANG);

	(void)fd;
	return pid ? pid : -EAGAIN;
}

/* Returns the pid, -errno, or -EAGAIN if there is no pidfd. */
static pid_t wait_polled(struct child *c, int64_t deadline)
{
	if (c->pid <= 0 || c->flags)
		return -EAGAIN;
	c->pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (c->pidfd < 0 || fd_register(c->pidfd, false) < 0) /* closes it */
		return -EAGAIN;
	leftover_add(&c->left, close_pidfd, c);
	os_fd_set_own(c->pidfd, true);
	ssize_t pid = fd_call(c->pidfd, SIDE_READ, call_waitpid_nohang, &(struct io_args){ c, 0 },
			      deadline);

	os_fd_set_own(c->pidfd, false);
	fd_close_always(c->pidfd);
	leftover_del(&c->left);
	return (pid_t)pid;
}

static pid_t wait_blocking(const struct child *c)
{
	gmp_block_enter();
	pid_t pid = call_waitpid(c, 0);

	gmp_block_leave();
	return pid;
}

/*
 * Poll with backoff.  The caller counts as a waiter for an fd, so that virtual time does not skip
 * the intervals.  If shutdown kills it, the count is one too high until the run has ended.
 */
static pid_t wait_with_backoff(const struct child *c, int64_t deadline)
{
	int64_t last = 0;
	pid_t pid;

	do {
		netpoll_add_waiter();
		int err = fd_backoff(&last, deadline);

		add_rlx(&sched.npollwait, -1u);
		pid = err ? err : call_waitpid(c, WNOHANG);
	} while (pid == 0);
	return pid;
}

pid_t gmp_waitpid(pid_t pid, int *status, int flags)
{
	struct child c = { .pid = pid, .status = status, .flags = flags };

	if (!rt_enter())
		return -ESRCH;
	cancel_hold();
	pid_t result = call_waitpid(&c, WNOHANG);
	bool blocking = false;

	if (result == 0 && !(flags & WNOHANG)) {
		result = wait_polled(&c, NEVER);
		blocking = result == -EAGAIN;
	}
	rt_leave(); /* WAITPID-3 */
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
	pid_t result = call_waitpid(&c, WNOHANG);

	if (result == 0 && !(flags & WNOHANG)) {
		result = too_late(deadline);
		if (!result)
			result = wait_polled(&c, deadline);
		if (result == -EAGAIN)
			result = wait_with_backoff(&c, deadline);
	}
	rt_leave();
	return result;
}
