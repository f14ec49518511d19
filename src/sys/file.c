/* SPDX-License-Identifier: MIT */
/*
 * How does a green thread use a file without keeping its P from the others?
 *
 * The kernel has no readiness of a file: open, read and write sleep until the disk (or a file server,
 * or the other end of a FIFO) has answered.  So either they are blocking code (blocking.c): the call is
 * made on the thread that runs the green thread, and the watcher hands the P on if it takes long.  Or they
 * go into the ring (io/uring.h), and nobody sleeps for them.
 *
 *   gmp_open     open(2) in blocking code; then the record: one that can be polled becomes non-blocking
 *                and waits as a socket does, any other is called in blocking code (io/fd.c)
 *   gmp_pread    what is in memory is read at once (RWF_NOWAIT); the rest by the ring
 *   gmp_pwrite   the same; where the file system cannot say whether it would sleep (ext4), in blocking
 *                code, since a write into memory is mostly short
 *   gmp_fsync, and files opened with O_DIRECT, O_SYNC
 *                by the ring at once
 *   no ring, an external thread, what can be polled
 *                the use of the record begins; blocking code { pread(2); the use ends }
 *
 * Invariants
 *  I1 While it opens a file, an external thread is not inside the runtime (rt_enter): the other end of a
 *     FIFO may never come, and the end of a run waits for those inside.
 *  I2 The use of a record ends within the blocking code: a green thread that is dropped when it comes
 *     back from there holds up no close.
 *  I3 Both ways give the same: a result counts what came from memory and from the ring; an error after
 *     some bytes is left to the next call.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/os.h"
#include "io/cleanup.h"
#include "io/fd.h"
#include "io/uring.h"
#include "park.h"

struct opened {
	int fd;
	struct leftover left;
};

static void close_opened(struct leftover *l)
{
	int fd = container_of(l, struct opened, left)->fd;

	if (fd >= 0)
		close(fd);
}

/* A green thread may be dropped at the end of the section, when it has the descriptor.  (An external thread goes
 * on, whatever has become of the run.) */
static int open_blocking(const char *path, int flags, mode_t mode)
{
	struct opened o = { .fd = -1 };
	bool green = gmp_self() != NULL;

	if (green)
		leftover_add(&o.left, close_opened);
	gmp_block_enter();
	do
		o.fd = open(path, flags | O_CLOEXEC, mode);
	while (o.fd < 0 && errno == EINTR);
	if (o.fd < 0)
		o.fd = -errno;
	gmp_block_leave();
	if (green)
		leftover_del(&o.left);
	return o.fd;
}

static int close_with(int fd, int err)
{
	close(fd);
	return err;
}

/* From the record on it is a descriptor like any other. */
static int make_known(int fd, int flags)
{
	int err = fd_open(fd, OPEN_PATH_FLAGS(flags));

	if (err)
		return close_with(fd, err);
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
	rt_leave(); /* I1 */
	int fd = open_blocking(path, flags, mode);

	if (fd >= 0 && !rt_enter()) {
		fd = close_with(fd, -ESRCH);
	} else if (fd >= 0) {
		fd = make_known(fd, flags);
		rt_leave();
	}
	cancel_release();
	return fd;
}

/* --- reading, writing, to the disk --- */

static ssize_t call(int fd, const struct uring_op *op)
{
	switch (op->kind) {
	case URING_READ: return pread(fd, op->buf, op->n, op->at);
	case URING_WRITE: return pwrite(fd, op->buf, op->n, op->at);
	case URING_FSYNC: return fsync(fd);
	}
	__builtin_unreachable();
}

static ssize_t call_blocking(struct polldesc *pd, const struct uring_op *op)
{
	ssize_t n;

	if (!netpoll_use(pd))
		return -EBADF;
	gmp_block_enter();
	do
		n = call(pd->fd, op);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		n = -errno;
	netpoll_unuse(pd); /* I2 */
	gmp_block_leave();
	return n;
}

static ssize_t try_once(struct polldesc *pd, const struct uring_op *op)
{
	struct iovec io = { op->buf, op->n };
	ssize_t n;

	if (!netpoll_use(pd))
		return -EBADF;
	do
		n = op->kind == URING_READ ? preadv2(pd->fd, &io, 1, op->at, RWF_NOWAIT)
					   : pwritev2(pd->fd, &io, 1, op->at, RWF_NOWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		n = errno == EPERM ? -EOPNOTSUPP
				   : -errno; /* a sandbox knows pread, but not preadv2 */
	netpoll_unuse(pd);
	return n;
}

/* What memory has of it; the rest is left in op.  True: there is no more to come, and the call says *n. */
static bool from_memory(struct polldesc *pd, struct uring_op *op, ssize_t *n)
{
	do {
		*n = try_once(pd, op);
		if (*n <= 0)
			break;
		op->buf = (char *)op->buf + *n;
		op->n -= (size_t)*n;
		op->at += *n;
	} while (op->n);
	return *n >= 0 || (*n != -EAGAIN && *n != -EOPNOTSUPP);
}

static bool asks_disk(struct polldesc *pd, const struct uring_op *op)
{
	return op->kind == URING_FSYNC ||
	       ld_rlx(&pd->to_disk) & (op->kind == URING_READ ? GMP_READ : GMP_WRITE);
}

/* I3 */
static ssize_t call_uring(struct polldesc *pd, const struct uring_op *whole)
{
	struct uring_op op = *whole;
	ssize_t n = -EAGAIN, done;

	if (asks_disk(pd, &op) || !from_memory(pd, &op, &n)) {
		if (n != -EOPNOTSUPP || op.kind == URING_READ)
			n = uring_call(pd, &op);
		if (n == -EAGAIN || n == -EOPNOTSUPP)
			n = call_blocking(pd, &op);
		if (n > 0)
			op.n -= (size_t)n;
	}
	done = (ssize_t)(whole->n - op.n);
	return done ? done : n;
}

static ssize_t call_file(int fd, const struct uring_op *op)
{
	if (!rt_enter())
		return -ESRCH;
	self_checkpoint(); /* what is in memory never waits */

	struct polldesc *pd = fd_find(fd);
	ssize_t n = -EBADF;

	if (op->at < 0)
		n = -EINVAL;
	else if (pd)
		n = ld_rlx(&pd->file) && uring_on() ? call_uring(pd, op) : call_blocking(pd, op);
	rt_leave();
	return n;
}

ssize_t gmp_pread(int fd, void *buf, size_t n, off_t at)
{
	if (off_stack(buf, n))
		return -EFAULT;
	n = min_of(n, (size_t)IO_MOST);
	return call_file(fd, &(struct uring_op){ URING_READ, buf, n, at });
}

ssize_t gmp_pwrite(int fd, const void *buf, size_t n, off_t at)
{
	if (off_stack(buf, n))
		return -EFAULT;
	n = min_of(n, (size_t)IO_MOST);
	return call_file(fd, &(struct uring_op){ URING_WRITE, (void *)(uintptr_t)buf, n, at });
}

int gmp_fsync(int fd)
{
	return (int)call_file(fd, &(struct uring_op){ .kind = URING_FSYNC });
}
