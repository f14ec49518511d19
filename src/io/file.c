/* SPDX-License-Identifier: MIT */
/*
 * How does a green thread use a file without keeping its P from the others?
 *
 * The kernel has no readiness of a file: open, read and write sleep until the disk (or a file server,
 * or the other end of a FIFO) has answered.  So they are blocking code (syscall.c): the call is made on
 * the thread that runs the green thread, and the watcher hands the P on if it takes long.
 *
 *   gmp_open     open(2) in blocking code; then the record: one that can be polled becomes non-blocking
 *                and waits as a socket does, any other is called in blocking code (io/fd.c)
 *   gmp_pread    the use of the record begins; blocking code { pread(2); the use ends }
 *
 * Invariants
 *  I1 While it opens a file, a foreign thread is not inside the runtime (rt_enter): the other end of a
 *     FIFO may never come, and the end of a run waits for those inside.
 *  I2 The use of a record ends within the blocking code: a green thread that is dropped when it comes
 *     back from there holds up no close.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/os.h"
#include "io/fd.h"
#include "park.h"

static int open_blocking(const char *path, int flags, mode_t mode)
{
	int fd;

	gmp_block_enter();
	do
		fd = open(path, flags | O_CLOEXEC, mode);
	while (fd < 0 && errno == EINTR);
	if (fd < 0)
		fd = -errno;
	gmp_block_leave();
	return fd;
}

static int close_with(int fd, int err)
{
	close(fd);
	return err;
}

/* From the record on it is a descriptor like any other. */
static int make_known(int fd)
{
	struct glist out = { 0 };
	int err = netpoll_open(fd, 0, &out);

	ready_list(&out);
	if (err)
		return close_with(fd, err);
	if (!ld_rlx(&netpoll_find(fd)->file))
		os_nonblock(fd, true);
	return fd;
}

int gmp_open(const char *path, int flags, mode_t mode)
{
	if (!path)
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	rt_leave(); /* I1 */
	int fd = open_blocking(path, flags, mode);

	if (fd < 0)
		return fd;
	if (!rt_enter())
		return close_with(fd, -ESRCH);
	fd = make_known(fd);
	rt_leave();
	return fd;
}

struct file_args {
	void *buf;
	size_t n;
	off_t at;
};

typedef ssize_t (*file_call)(int fd, const struct file_args *a);

static ssize_t call_pread(int fd, const struct file_args *a)
{
	return pread(fd, a->buf, min_of(a->n, (size_t)IO_MOST), a->at);
}

static ssize_t call_pwrite(int fd, const struct file_args *a)
{
	return pwrite(fd, a->buf, min_of(a->n, (size_t)IO_MOST), a->at);
}

static ssize_t call_fsync(int fd, const struct file_args *a)
{
	(void)a;
	return fsync(fd);
}

static ssize_t call_blocking(struct polldesc *pd, file_call call, const struct file_args *a)
{
	ssize_t n;

	if (!netpoll_use(pd))
		return -EBADF;
	gmp_block_enter();
	do
		n = call(pd->fd, a);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		n = -errno;
	netpoll_unuse(pd); /* I2 */
	gmp_block_leave();
	return n;
}

static ssize_t call_file(int fd, file_call call, const struct file_args *a)
{
	if (!rt_enter())
		return -ESRCH;
	struct polldesc *pd = fd_find(fd);
	ssize_t n = pd ? call_blocking(pd, call, a) : -EBADF;

	rt_leave();
	return n;
}

ssize_t gmp_pread(int fd, void *buf, size_t n, off_t at)
{
	return call_file(fd, call_pread, &(struct file_args){ buf, n, at });
}

ssize_t gmp_pwrite(int fd, const void *buf, size_t n, off_t at)
{
	return call_file(fd, call_pwrite, &(struct file_args){ (void *)(uintptr_t)buf, n, at });
}

int gmp_fsync(int fd)
{
	return (int)call_file(fd, call_fsync, &(struct file_args){ 0 });
}
