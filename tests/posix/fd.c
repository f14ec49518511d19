/* SPDX-License-Identifier: MIT */
/* Tests the calls that close, duplicate, lock or write back a file. */
#define _GNU_SOURCE
#include <sys/file.h>
#include <sys/wait.h>

#include "fds.h"

/* --- close --- */

POSIX_TEST(close_frees_the_number)
{
	int s[2], t;

	unix_pair(s);
	errno = 1234;
	CHECK_EQ(close(s[0]), 0);
	CHECK_EQ(errno, 1234);
	t = dup(s[1]);
	CHECK_EQ(t, s[0]);
	close_pair(s);
	CHECK_ERRNO(close(s[0]), EBADF);
	CHECK_ERRNO(close(-1), EBADF);
}

POSIX_TEST(close_ends_the_stream_of_the_peer)
{
	char c;
	int s[2];

	unix_pair(s);
	close(s[1]);
	CHECK_EQ(read(s[0], &c, 1), 0);
	close(s[0]);
}

static int waited[2];

static void read_closed(void *arg)
{
	char c;

	(void)arg;
	CHECK_ERRNO(read(waited[0], &c, 1), EBADF);
}

static const char by_dup2[] = "dup2", early[] = "early";

static void close_app(void *how)
{
	gmp_g *g;
	int t[2];

	unix_pair(waited);
	unix_pair(t);
	CHECK_EQ(gmp_spawn(&g, read_closed, NULL, NULL), 0);
	if (how == early)
		gmp_yield(); /* it has attempted once */
	else
		until_waiting(1);
	CHECK_EQ(write(t[1], "x", 1), 1); /* the waiter must not read it by the same number */
	if (how == by_dup2) {
		CHECK_EQ(dup2(t[0], waited[0]), waited[0]);
	} else {
		CHECK_EQ(close(waited[0]), 0);
		CHECK_EQ(dup(t[0]), waited[0]);
	}
	CHECK_EQ(gmp_join(g), 0);
}

static void run_close(const char *how)
{
	run_own(1, 0, close_app, (void *)(uintptr_t)how);
}

TEST(close_ends_waits_with_ebadf)
{
	run_close(NULL);
}

TEST(dup2_ends_waits_with_ebadf)
{
	run_close(by_dup2);
}

TEST(close_before_the_first_wait_is_ebadf)
{
	run_close(early);
}

static void read_byte(void *arg)
{
	char c;

	(void)arg;
	CHECK_EQ(read(waited[0], &c, 1), 1);
}

/* Calls that close no file. */
static void dup_nothing_app(void *arg)
{
	gmp_g *g;

	(void)arg;
	unix_pair(waited);
	CHECK_EQ(gmp_spawn(&g, read_byte, NULL, NULL), 0);
	until_waiting(1);
	CHECK_ERRNO(dup2(-1, waited[0]), EBADF);
	CHECK_ERRNO(dup3(-1, waited[0], 0), EBADF);
	CHECK_EQ(dup2(waited[0], waited[0]), waited[0]);
	CHECK_ERRNO(dup3(waited[0], waited[0], 0), EINVAL);
	until_waiting(1);
	CHECK_EQ(write(waited[1], "x", 1), 1);
	CHECK_EQ(gmp_join(g), 0);
}

TEST(dup2_that_closes_nothing_leaves_waits)
{
	run_own(1, 0, dup_nothing_app, NULL);
}

/* An fd that gmp knows. */
static void read_known(void *arg)
{
	char c;

	(void)arg;
	CHECK_EQ(gmp_read(waited[0], &c, 1), -ECANCELED);
}

static void known_app(void *arg)
{
	gmp_g *g;
	int t[2];
	char c;

	(void)arg;
	unix_pair(waited);
	unix_pair(t);
	CHECK_EQ(write(t[1], "x", 1), 1);
	CHECK_EQ(gmp_fd_adopt(waited[0]), waited[0]);
	CHECK_ERRNO(read(waited[0], &c, 1), EAGAIN); /* it is non-blocking */
	CHECK_EQ(gmp_spawn(&g, read_known, NULL, NULL), 0);
	until_waiting(1);
	CHECK_EQ(close(waited[0]), 0);
	CHECK_EQ(dup(t[0]), waited[0]);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(gmp_read(waited[0], &c, 1), -EBADF);
	CHECK_EQ(gmp_fd_adopt(waited[1]), waited[1]);
	CHECK_EQ(shutdown(waited[1], SHUT_RDWR), 0);
	CHECK_EQ(dup2(0, waited[1]), waited[1]);
	CHECK_EQ(gmp_read(waited[1], &c, 1), -EBADF);
}

TEST(close_of_an_adopted_fd_is_gmp_close)
{
	run_own(0, 0, known_app, NULL);
}

static void poll_known(void *arg)
{
	struct pollfd p = { waited[0], POLLIN, 0 };

	(void)arg;
	CHECK_EQ(poll(&p, 1, -1), 1);
	CHECK_EQ(p.revents, POLLNVAL);
}

static void replace_known_app(void *arg)
{
	gmp_g *g;
	int t[2];

	(void)arg;
	unix_pair(waited);
	unix_pair(t);
	CHECK_EQ(write(t[1], "x", 1), 1);
	CHECK_EQ(gmp_fd_adopt(waited[0]), waited[0]);
	CHECK_EQ(gmp_spawn(&g, poll_known, NULL, NULL), 0);
	until_waiting(1);
	CHECK_EQ(dup2(t[0], waited[0]), waited[0]); /* which is ready */
	CHECK_EQ(gmp_join(g), 0);
}

TEST(dup2_to_an_adopted_fd_ends_poll_with_nval)
{
	run_own(1, 0, replace_known_app, NULL);
}

/* --- dup --- */

POSIX_TEST(dup_shares_the_file)
{
	int s[2], t;
	char c;

	unix_pair(s);
	t = dup(s[0]);
	CHECK(t >= 0);
	CHECK_EQ(fcntl(t, F_GETFD), 0);
	set_nonblocking(s[0], true);
	CHECK_ERRNO(read(t, &c, 1), EAGAIN);
	CHECK_EQ(dup2(s[0], t), t);
	CHECK_EQ(dup2(t, t), t);
	CHECK_EQ(dup3(s[0], t, O_CLOEXEC), t);
	CHECK_EQ(fcntl(t, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(write(s[1], "x", 1), 1);
	CHECK_EQ(read(t, &c, 1), 1);
	close(t);
	close_pair(s);
}

POSIX_TEST(dup_bad_argument_is_an_error)
{
	CHECK_ERRNO(dup(-1), EBADF);
	CHECK_ERRNO(dup2(-1, 5), EBADF);
	CHECK_ERRNO(dup2(0, -1), EBADF);
	CHECK_ERRNO(dup3(-1, 5, 0), EBADF);
	CHECK_ERRNO(dup3(0, 0, 0), EINVAL);
	CHECK_ERRNO(dup3(0, 5, ~0), EINVAL);
}

static void write_byte(void *fd)
{
	CHECK_EQ(write(*(int *)fd, "x", 1), 1);
}

/* A number that had waits gets another file. */
POSIX_TEST(dup_onto_a_number_that_had_waits)
{
	for (int i = 0; i < 3; i++) {
		struct peer p;
		int s[2], t[2], fd;
		char c;

		unix_pair(s);
		unix_pair(t);
		for (int n = 0; n < 3; n++) {
			peer_start(&p, write_byte, &s[1]);
			CHECK_EQ(read(s[0], &c, 1), 1);
			peer_join(&p);
		}
		if (i == 2)
			close(s[0]);
		fd = i == 0 ? dup2(t[0], s[0]) : i == 1 ? dup3(t[0], s[0], 0) : dup(t[0]);
		CHECK_EQ(fd, s[0]);
		for (int n = 0; n < 3; n++) {
			peer_start(&p, write_byte, &t[1]);
			CHECK_EQ(read(fd, &c, 1), 1);
			peer_join(&p);
		}
		close_pair(s);
		close_pair(t);
	}
}

/* --- write back --- */

POSIX_TEST(fsync_writes_back)
{
	int fd = text_file("x");

	errno = 1234;
	CHECK_EQ(fsync(fd), 0);
	CHECK_EQ(fdatasync(fd), 0);
	CHECK_EQ(errno, 1234);
	close(fd);
}

POSIX_TEST(fsync_bad_fd_is_ebadf)
{
	CHECK_ERRNO(fsync(-1), EBADF);
	CHECK_ERRNO(fdatasync(-1), EBADF);
}

POSIX_TEST(fsync_of_a_pipe_is_einval)
{
	int s[2];

	CHECK_EQ(pipe(s), 0);
	CHECK_ERRNO(fsync(s[0]), EINVAL);
	CHECK_ERRNO(fdatasync(s[0]), EINVAL);
	close_pair(s);
}

/* --- locks --- */

/* A child holds a lock until a byte comes. */
struct holder {
	int fd, to[2], from[2];
	pid_t pid;
};

static void holder_start(struct holder *h, int (*lock_it)(int fd))
{
	char c;

	h->fd = text_file("x");
	CHECK_EQ(pipe(h->to), 0);
	CHECK_EQ(pipe(h->from), 0);
	h->pid = fork();
	CHECK(h->pid >= 0);
	if (h->pid == 0) {
		int err = lock_it(h->fd);

		if (write(h->from[1], "x", 1) != 1 || read(h->to[0], &c, 1) != 1)
			_exit(2);
		_exit(err != 0);
	}
	CHECK_EQ(read(h->from[0], &c, 1), 1);
}

static void holder_release(void *h)
{
	CHECK_EQ(write(((struct holder *)h)->to[1], "x", 1), 1);
}

static void holder_end(struct holder *h)
{
	int status;

	while (waitpid(h->pid, &status, 0) != h->pid)
		CHECK_EQ(errno, EINTR);
	CHECK_EQ(status, 0);
	close(h->fd);
	close_pair(h->to);
	close_pair(h->from);
}

static int by_lockf(int fd)
{
	return lockf(fd, F_LOCK, 0);
}

static int by_lockf64(int fd)
{
	return lockf64(fd, F_LOCK, 0);
}

static int by_fcntl(int fd)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl(fd, F_SETLKW, &l);
}

static int by_fcntl64(int fd)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return fcntl64(fd, F_SETLKW, &l);
}

/* The lock of a parent and of its child differ, since each opens the file. */
static int by_flock(int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int own = open(path, O_RDWR);

	return own < 0 ? -1 : flock(own, LOCK_EX);
}

static int (*const lockers[])(int fd) = { by_lockf, by_lockf64, by_fcntl, by_fcntl64, by_flock };
enum { LOCKERS = 5 };

POSIX_TEST(lock_waits_for_the_holder)
{
	skip_under_chaos();
	for (int i = 0; i < LOCKERS; i++) {
		struct holder h;
		struct peer p;

		holder_start(&h, lockers[i]);
		peer_start(&p, holder_release, &h);
		errno = 1234;
		CHECK_EQ(lockers[i](h.fd), 0);
		peer_join(&p);
		holder_end(&h);
	}
}

POSIX_TEST(lock_held_is_eagain)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct holder h;

	holder_start(&h, by_lockf);
	CHECK_ERRNO(lockf(h.fd, F_TLOCK, 0), EAGAIN);
	CHECK_ERRNO(lockf64(h.fd, F_TLOCK, 0), EAGAIN);
	CHECK_ERRNO(lockf(h.fd, F_TEST, 0), EACCES);
	CHECK_ERRNO(fcntl(h.fd, F_SETLK, &l), EAGAIN);
	CHECK_ERRNO(fcntl64(h.fd, F_SETLK, &l), EAGAIN);
	CHECK_EQ(fcntl(h.fd, F_GETLK, &l), 0);
	CHECK_EQ(l.l_pid, h.pid);
	holder_release(&h);
	holder_end(&h);
	holder_start(&h, by_flock);
	CHECK_ERRNO(flock(h.fd, LOCK_EX | LOCK_NB), EWOULDBLOCK);
	holder_release(&h);
	holder_end(&h);
}

POSIX_TEST(lock_bad_argument_is_an_error)
{
	int fd = text_file("x");
	struct flock l = { .l_type = 17, .l_whence = SEEK_SET };

	CHECK_ERRNO(lockf(-1, F_LOCK, 0), EBADF);
	CHECK_ERRNO(lockf64(-1, F_LOCK, 0), EBADF);
	CHECK_ERRNO(lockf(fd, 17, 0), EINVAL);
	CHECK_ERRNO(flock(-1, LOCK_EX), EBADF);
	CHECK_ERRNO(flock(fd, 0), EINVAL);
	CHECK_ERRNO(fcntl(-1, F_SETLKW, &l), EBADF);
	CHECK_ERRNO(fcntl64(fd, F_SETLKW, &l), EINVAL);
	close(fd);
}

/* --- fcntl --- */

POSIX_TEST(fcntl_passes_its_argument)
{
	int s[2], t;

	CHECK_EQ(pipe(s), 0);
	t = fcntl(s[0], F_DUPFD_CLOEXEC, 100);
	CHECK(t >= 100);
	CHECK_EQ(fcntl(t, F_GETFD), FD_CLOEXEC);
	CHECK_EQ(fcntl64(t, F_SETFD, 0), 0);
	CHECK_EQ(fcntl64(t, F_GETFD), 0);
	CHECK_EQ(fcntl(s[0], F_SETFL, O_NONBLOCK), 0);
	CHECK(is_nonblocking(t));
	CHECK_EQ(fcntl(s[0], F_SETPIPE_SZ, 4096), 4096);
	CHECK_ERRNO(fcntl(-1, F_GETFL), EBADF);
	CHECK_ERRNO(fcntl64(-1, F_GETFL), EBADF);
	CHECK_ERRNO(fcntl(t, 12345), EINVAL);
	close(t);
	close_pair(s);
}
