/* SPDX-License-Identifier: MIT */
/*
 * File calls: open, pread, pwrite and fsync without keeping a P from other Gs.
 *
 * A regular file has no readiness: open, read and write sleep in the kernel until the disk (or a
 * file server, or the other end of a FIFO) has answered.  Such a call is either a blocking section
 * (wait/blocking.c): it runs on the M of the calling G, and sysmon hands the P off if it takes
 * long.  Or it goes through the ring (io/uring.h), and no OS thread sleeps for it.
 *
 *   gmp_open     open(2) in a blocking section; then the record: an fd that can be polled becomes
 *                non-blocking and waits as a socket does; any other is called in blocking sections
 *                (io/fd.c)
 *   gmp_pread    data in the page cache is read at once (RWF_NOWAIT), the rest through the ring
 *   gmp_pwrite   likewise; if the file system cannot tell whether it would sleep (ext4), in a
 *                blocking section, since a write to the page cache is mostly short
 *   gmp_fsync, and files opened with O_DIRECT or O_SYNC
 *                through the ring at once
 *   no ring, an external thread, an fd that can be polled
 *                begin a use of the record; blocking section { pread(2); end the use }
 *
 * Invariants
 *   FILE-1  While it opens a file, an external thread is not inside the runtime (rt_enter): the
 *           other end of a FIFO may never be opened, and the end of a run waits for threads inside.
 *   FILE-2  The use of a record ends inside the blocking section: a G that is killed at shutdown
 *           when it leaves the section delays no close.
 *   FILE-3  Both ways have the same result: the count includes bytes from the page cache and from
 *           the ring; an error after some bytes is left to the next call.
 *   FILE-4  All attempts of a call are on the file that the number had when it began: each begins a
 *           use of that registration.  If the number is closed in between, the call ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/os.h"
#include "enter.h"
#include "io/cleanup.h"
#include "io/fd.h"
#include "io/uring.h"
#include "park.h"

/*
 * open(2) in a blocking section.  Returns fd or -errno.  The fd of a G is a leftover, since
 * shutdown may kill the G at the end of the section; an external thread continues after the end of
 * the run.
 */
static int open_blocking(const char *path, int flags, mode_t mode)
{
	struct leftover left;
	int fd = -1;
	bool green = gmp_self() != NULL;

	if (green)
		leftover_add(&left, leftover_close, &fd);
	gmp_block_enter();
	fd = os_retry(open(path, flags | O_CLOEXEC, mode));
	gmp_block_leave();
	if (green)
		leftover_del(&left);
	return fd;
}

/* Open the record of a new fd.  Returns fd, or -errno with fd closed. */
static int file_register(int fd, int flags)
{
	int err = fd_open(fd, OPEN_PATH_FLAGS(flags));

	if (err)
		return fd_close_with(fd, err);
	if (!ld_rlx(&netpoll_find(fd)->file))
		err = os_nonblock(fd, true);
	if (err >= 0)
		return fd;
	gmp_close(fd);
	return err;
}

int gmp_open(const char *path, int flags, mode_t mode)
{
	if (!path)
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	cancel_hold();
	rt_leave(); /* FILE-1 */
	int fd = open_blocking(path, flags, mode);

	if (fd >= 0 && !rt_enter()) {
		fd = fd_close_with(fd, -ESRCH);
	} else if (fd >= 0) {
		fd = file_register(fd, flags);
		rt_leave();
	}
	cancel_release();
	return fd;
}

/* --- pread, pwrite, fsync --- */

static ssize_t file_syscall(int fd, const struct uring_op *op)
{
	switch (op->kind) {
	case URING_READ: return pread(fd, op->buf, op->n, op->at);
	case URING_WRITE: return pwrite(fd, op->buf, op->n, op->at);
	case URING_FSYNC: return fsync(fd);
	}
	__builtin_unreachable();
}

static ssize_t file_call_blocking(struct polldesc *pd, uint32_t seq, const struct uring_op *op)
{
	if (!fd_use(pd, seq))
		return fd_lost(pd, seq);
	gmp_block_enter();
	ssize_t n = os_retry(file_syscall(pd->fd, op));

	netpoll_unuse(pd); /* FILE-2 */
	gmp_block_leave();
	return n;
}

/* One attempt with RWF_NOWAIT: -EAGAIN if it would sleep, -EOPNOTSUPP if that is not known. */
static ssize_t try_cached(struct polldesc *pd, uint32_t seq, const struct uring_op *op)
{
	struct iovec io = { op->buf, op->n };

	if (!fd_use(pd, seq))
		return fd_lost(pd, seq);
	ssize_t n = os_retry(op->kind == URING_READ ? preadv2(pd->fd, &io, 1, op->at, RWF_NOWAIT)
						    : pwritev2(pd->fd, &io, 1, op->at, RWF_NOWAIT));

	netpoll_unuse(pd);
	return n == -EPERM ? -EOPNOTSUPP : n; /* a sandbox that allows pread, but not preadv2 */
}

/*
 * Transfer what the page cache can; op is the rest.  Returns true if the call is complete; *n is
 * the result of the last attempt.
 */
static bool transfer_cached(struct polldesc *pd, uint32_t seq, struct uring_op *op, ssize_t *n)
{
	do {
		*n = try_cached(pd, seq, op);
		if (*n <= 0)
			break;
		op->buf = (char *)op->buf + *n;
		op->n -= (size_t)*n;
		op->at += *n;
	} while (op->n);
	return *n >= 0 || (*n != -EAGAIN && *n != -EOPNOTSUPP);
}

/* True if the call sleeps in any case: fsync, or a file opened with O_DIRECT or O_SYNC. */
static bool always_sleeps(struct polldesc *pd, const struct uring_op *op)
{
	return op->kind == URING_FSYNC ||
	       ld_rlx(&pd->to_disk) & (op->kind == URING_READ ? GMP_READ : GMP_WRITE);
}

/* FILE-3 */
static ssize_t file_call_uring(struct polldesc *pd, uint32_t seq, const struct uring_op *all)
{
	struct uring_op op = *all;
	ssize_t n = -EAGAIN, done;

	if (always_sleeps(pd, &op) || !transfer_cached(pd, seq, &op, &n)) {
		if (n != -EOPNOTSUPP || op.kind == URING_READ)
			n = uring_call(pd, seq, &op);
		if (n == -EAGAIN || n == -EOPNOTSUPP)
			n = file_call_blocking(pd, seq, &op);
		if (n > 0)
			op.n -= (size_t)n;
	}
	done = (ssize_t)(all->n - op.n);
	return done ? done : n;
}

static ssize_t file_call(int fd, const struct uring_op *op)
{
	if (!rt_enter())
		return -ESRCH;
	self_checkpoint(); /* calls on cached data never wait: they must not starve other Gs */
	struct polldesc *pd = fd_find(fd);
	ssize_t n = -EBADF;

	if (op->at < 0) {
		n = -EINVAL;
	} else if (pd) {
		uint32_t seq = ld_rlx(&pd->seq); /* FILE-4 */

		n = ld_rlx(&pd->file) && uring_on() ? file_call_uring(pd, seq, op)
						    : file_call_blocking(pd, seq, op);
	}
	rt_leave();
	return n;
}

ssize_t gmp_pread(int fd, void *buf, size_t n, off_t at)
{
	if (off_stack(buf, n))
		return -EFAULT;
	n = min_of(n, (size_t)IO_MOST);
	return file_call(fd, &(struct uring_op){ URING_READ, buf, n, at });
}

ssize_t gmp_pwrite(int fd, const void *buf, size_t n, off_t at)
{
	if (off_stack(buf, n))
		return -EFAULT;
	n = min_of(n, (size_t)IO_MOST);
	return file_call(fd, &(struct uring_op){ URING_WRITE, (void *)(uintptr_t)buf, n, at });
}

int gmp_fsync(int fd)
{
	return (int)file_call(fd, &(struct uring_op){ .kind = URING_FSYNC });
}
