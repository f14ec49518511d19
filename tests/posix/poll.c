/* SPDX-License-Identifier: MIT */
/* Tests poll, select and epoll_wait. */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/wait.h>

#include "fds.h"

int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
		size_t room);

/* --- the calls: wait until fd is readable; ms < 0: indefinitely --- */

static int by_poll_of(struct pollfd *fds, nfds_t n, int ms)
{
	return poll(fds, n, ms);
}

static int by_poll_chk_of(struct pollfd *fds, nfds_t n, int ms)
{
	return __poll_chk(fds, n, ms, n * sizeof(*fds));
}

static int by_ppoll_of(struct pollfd *fds, nfds_t n, int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	return ppoll(fds, n, ms < 0 ? NULL : &t, NULL);
}

static int by_ppoll_chk_of(struct pollfd *fds, nfds_t n, int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	return __ppoll_chk(fds, n, ms < 0 ? NULL : &t, NULL, n * sizeof(*fds));
}

typedef int (*poller)(struct pollfd *fds, nfds_t n, int ms);
static const poller pollers[] = { by_poll_of, by_poll_chk_of, by_ppoll_of, by_ppoll_chk_of };
enum { POLLERS = 4 };

static int poll_one(poller fn, int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int n = fn(&p, 1, ms);

	if (n == 1)
		CHECK_EQ(p.revents, POLLIN);
	return n;
}

#define BY_POLL(name)                                                                              \
	static int name(int fd, int ms)                                                            \
	{                                                                                          \
		return poll_one(name##_of, fd, ms);                                                \
	}

BY_POLL(by_poll)
BY_POLL(by_poll_chk)
BY_POLL(by_ppoll)
BY_POLL(by_ppoll_chk)

static int by_select(int fd, int ms)
{
	struct timeval t = { ms / 1000, ms % 1000 * 1000 };
	fd_set in;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	int n = select(fd + 1, &in, NULL, NULL, ms < 0 ? NULL : &t);

	if (n >= 0)
		CHECK_EQ(!!FD_ISSET(fd, &in), n);
	return n;
}

static int by_pselect(int fd, int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	fd_set in;

	FD_ZERO(&in);
	FD_SET(fd, &in);
	int n = pselect(fd + 1, &in, NULL, NULL, ms < 0 ? NULL : &t, NULL);

	if (n >= 0)
		CHECK_EQ(!!FD_ISSET(fd, &in), n);
	return n;
}

static int epoll_of(int fd)
{
	struct epoll_event e = { .events = EPOLLIN, .data.fd = fd };
	int ep = epoll_create1(0);

	CHECK(ep >= 0);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e), 0);
	return ep;
}

static int by_epoll_wait(int fd, int ms)
{
	struct epoll_event e[4];
	int ep = epoll_of(fd), n = epoll_wait(ep, e, 4, ms), err = errno;

	if (n == 1)
		CHECK_EQ(e[0].data.fd, fd);
	close(ep);
	errno = err;
	return n;
}

static int by_epoll_pwait(int fd, int ms)
{
	struct epoll_event e[4];
	int ep = epoll_of(fd), n = epoll_pwait(ep, e, 4, ms, NULL), err = errno;

	if (n == 1)
		CHECK_EQ(e[0].data.fd, fd);
	close(ep);
	errno = err;
	return n;
}

typedef int (*waiter)(int fd, int ms);
static const waiter waiters[] = { by_poll,   by_poll_chk, by_ppoll,      by_ppoll_chk,
				  by_select, by_pselect,  by_epoll_wait, by_epoll_pwait };
enum { WAITERS = sizeof(waiters) / sizeof(waiters[0]) };

/* --- all calls --- */

POSIX_TEST(poll_ready_returns_1_and_keeps_errno)
{
	for (int i = 0; i < WAITERS; i++) {
		int s[2];

		unix_pair(s);
		CHECK_EQ(write(s[1], "x", 1), 1);
		errno = 1234;
		CHECK_EQ(waiters[i](s[0], -1), 1);
		CHECK_EQ(waiters[i](s[0], 0), 1);
		CHECK_EQ(waiters[i](s[0], 1000000), 1);
		CHECK_EQ(errno, 1234);
		close_pair(s);
	}
}

POSIX_TEST(poll_timeout_returns_0)
{
	for (int i = 0; i < WAITERS; i++) {
		int s[2];

		unix_pair(s);
		errno = 1234;
		CHECK_EQ(waiters[i](s[0], 0), 0);
		int64_t began = gmp_now();

		CHECK_EQ(waiters[i](s[0], 20), 0);
		CHECK(gmp_now() - began >= 20000000);
		CHECK_EQ(errno, 1234);
		close_pair(s);
	}
}

static void write_byte(void *fd)
{
	CHECK_EQ(write(*(int *)fd, "x", 1), 1);
}

POSIX_TEST(poll_waits_for_the_writer)
{
	for (int i = 0; i < WAITERS; i++) {
		for (int kind = 0; kind < 2; kind++) {
			struct peer p;
			int s[2];

			if (kind)
				CHECK_EQ(pipe(s), 0);
			else
				unix_pair(s);
			peer_start(&p, write_byte, &s[1]);
			CHECK_EQ(waiters[i](s[0], kind ? -1 : 100000), 1);
			peer_join(&p);
			close_pair(s);
		}
	}
}

static int pairs[PARKED][2];

static void wait_poll(int i)
{
	CHECK_EQ(waiters[i % WAITERS](pairs[i][0], -1), 1);
}

static void wake_poll(int i)
{
	CHECK_EQ(write(pairs[i][1], "x", 1), 1);
}

TEST(poll_parks_the_green_thread)
{
	for (int i = 0; i < PARKED; i++)
		unix_pair(pairs[i]);
	check_parks(wait_poll, wake_poll);
}

static void cancelled_polls(void *arg)
{
	(void)arg;
	for (int i = 0; i < WAITERS; i++) {
		int s[2];

		unix_pair(s);
		CHECK_ERRNO(waiters[i](s[0], -1), ECANCELED);
		close_pair(s);
	}
}

TEST(poll_cancelled_is_ecanceled)
{
	check_cancelled(cancelled_polls);
}

/* --- poll --- */

POSIX_TEST(poll_reports_each_descriptor)
{
	for (int i = 0; i < POLLERS; i++) {
		int s[2], t[2];

		unix_pair(s);
		unix_pair(t);
		struct pollfd p[] = { { .fd = s[0], .events = POLLIN, .revents = 7 },
				      { .fd = -1, .events = POLLIN, .revents = 7 },
				      { .fd = 100000, .events = POLLIN },
				      { .fd = s[1], .events = POLLIN | POLLOUT },
				      { .fd = t[0], .events = 0 } };

		close(t[1]);
		CHECK_EQ(pollers[i](p, 5, -1), 3);
		CHECK_EQ(p[0].revents, 0);
		CHECK_EQ(p[1].revents, 0);
		CHECK_EQ(p[2].revents, POLLNVAL);
		CHECK_EQ(p[3].revents, POLLOUT);
		CHECK_EQ(p[4].revents, POLLHUP);
		close_pair(s);
		close(t[0]);
	}
}

POSIX_TEST(poll_of_nothing_sleeps)
{
	for (int i = 0; i < POLLERS; i++) {
		struct pollfd none = { .fd = -1 };
		int64_t began = gmp_now();

		CHECK_EQ(pollers[i](NULL, 0, 10), 0);
		CHECK_EQ(pollers[i](&none, 1, 10), 0);
		CHECK(gmp_now() - began >= 20000000);
	}
}

POSIX_TEST(poll_bad_argument_is_an_error)
{
	struct timespec bad = { 0, 1000000000 };
	struct pollfd p = { .fd = 0 }, *volatile nowhere = (struct pollfd *)8;
	volatile nfds_t much = (nfds_t)-1 / 2;

	CHECK_ERRNO(ppoll(&p, 1, &bad, NULL), EINVAL);
	CHECK_ERRNO(__ppoll_chk(&p, 1, &bad, NULL, sizeof(p)), EINVAL);
	CHECK_ERRNO(poll(nowhere, 1, 0), EFAULT);
	CHECK_ERRNO(poll(nowhere, 1, -1), EFAULT);
	CHECK_ERRNO(poll(&p, much, 0), EINVAL);
}

/* The kernel takes 32 bits of the count. */
POSIX_TEST(poll_ignores_the_upper_bits_of_the_count)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };
	struct timespec t = { 0, 1000000 };
	volatile nfds_t much = ((nfds_t)1 << 32) + 1, wraps = (nfds_t)1 << 61 | 1;
	int s[2];

	unix_pair(s);
	p.fd = s[0];
	CHECK_EQ(poll(&p, much, 1), 0);
	CHECK_EQ(poll(&p, wraps, 1), 0);
	CHECK_EQ(ppoll(&p, wraps, &t, NULL), 0);
	CHECK_EQ(write(s[1], "x", 1), 1);
	CHECK_EQ(poll(&p, wraps, -1), 1);
	CHECK_EQ(p.revents, POLLIN);
	close_pair(s);
}

/* A signal that is pending is delivered in the call, by its mask. */
static volatile sig_atomic_t signals;

static void count_signal(int signo)
{
	(void)signo;
	signals++;
}

static int masked(int i, int ep, const sigset_t *mask)
{
	struct pollfd p = { .fd = -1 };
	struct epoll_event e;

	switch (i) {
	case 0: return ppoll(&p, 1, NULL, mask);
	case 1: return __ppoll_chk(&p, 1, NULL, mask, sizeof(p));
	case 2: return pselect(0, NULL, NULL, NULL, NULL, mask);
	default: return epoll_pwait(ep, &e, 1, -1, mask);
	}
}

/* The signal is blocked except in the call.  The first one is pending before it; the others come
 * from a child at any time. */
POSIX_TEST(poll_with_a_mask_is_interrupted)
{
	struct sigaction sa = { .sa_handler = count_signal, .sa_flags = SA_RESTART };
	sigset_t usr1, none, now;
	int ep = epoll_create1(0);

	skip_under_chaos();
	sigemptyset(&none);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	sigaction(SIGUSR1, &sa, NULL);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	for (int i = 0; i < 20; i++) {
		pid_t pid = i < 4 ? 0 : fork();

		if (i >= 4 && pid == 0) {
			kill(getppid(), SIGUSR1);
			_exit(0);
		}
		signals = 0;
		if (i < 4)
			CHECK_EQ(kill(getpid(), SIGUSR1), 0);
		CHECK_EQ(signals, 0);
		CHECK_ERRNO(masked(i % 4, ep, &none), EINTR);
		CHECK_EQ(signals, 1);
		pthread_sigmask(SIG_SETMASK, NULL, &now);
		CHECK(sigismember(&now, SIGUSR1));
		if (pid)
			CHECK_EQ(waitpid(pid, NULL, 0), pid);
	}
	pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
	signal(SIGUSR1, SIG_DFL);
	close(ep);
}

/* --- select --- */

static int select_by(int i, int n, fd_set *in, fd_set *out, fd_set *except, int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000 };
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	return i ? pselect(n, in, out, except, ms < 0 ? NULL : &ts, NULL)
		 : select(n, in, out, except, ms < 0 ? NULL : &tv);
}

POSIX_TEST(select_reports_each_set)
{
	for (int i = 0; i < 2; i++) {
		fd_set in, out, except;
		int s[2], n;

		unix_pair(s);
		n = (s[0] > s[1] ? s[0] : s[1]) + 1;
		FD_ZERO(&in);
		FD_SET(s[0], &in);
		FD_SET(s[1], &in);
		out = except = in;
		CHECK_EQ(write(s[1], "x", 1), 1);
		CHECK_EQ(select_by(i, n, &in, &out, &except, -1), 3);
		CHECK(FD_ISSET(s[0], &in) && !FD_ISSET(s[1], &in));
		CHECK(FD_ISSET(s[0], &out) && FD_ISSET(s[1], &out));
		CHECK(!FD_ISSET(s[0], &except) && !FD_ISSET(s[1], &except));
		close_pair(s);
	}
}

POSIX_TEST(select_bad_argument_is_an_error)
{
	struct timespec ts = { 0, 1000000000 };
	struct timeval tv = { 0, -1 };
	int closed = dup(0);
	fd_set in;

	close(closed);
	for (int i = 0; i < 2; i++) {
		FD_ZERO(&in);
		FD_SET(closed, &in);
		CHECK_ERRNO(select_by(i, closed + 1, &in, NULL, NULL, -1), EBADF);
		CHECK_ERRNO(select_by(i, -1, NULL, NULL, NULL, 0), EINVAL);
	}
	CHECK_ERRNO(select(0, NULL, NULL, NULL, &tv), EINVAL);
	CHECK_ERRNO(pselect(0, NULL, NULL, NULL, &ts, NULL), EINVAL);
}

/* The kernel ignores descriptors for which its table has no room. */
POSIX_TEST(select_of_more_than_the_table_leaves_what_is_behind_the_set)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *m = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fd_set *in = (fd_set *)(void *)(m + page - sizeof(*in));
	int s[2];

	CHECK(m != MAP_FAILED);
	CHECK_EQ(mprotect(m + page, page, PROT_NONE), 0);
	unix_pair(s);
	CHECK(s[1] < 100);
	for (int i = 0; i < 2; i++) {
		FD_ZERO(in);
		FD_SET(s[0], in);
		CHECK_EQ(select_by(i, 4 * FD_SETSIZE, in, NULL, NULL, 20), 0);
		CHECK(!FD_ISSET(s[0], in));
	}
	CHECK_EQ(write(s[1], "x", 1), 1);
	for (int i = 0; i < 2; i++) {
		FD_SET(s[0], in);
		CHECK_EQ(select_by(i, 4 * FD_SETSIZE, in, NULL, NULL, -1), 1);
		CHECK(FD_ISSET(s[0], in));
	}
	munmap(m, 2 * page);
	close_pair(s);
}

POSIX_TEST(select_of_nothing_sleeps)
{
	for (int i = 0; i < 2; i++) {
		int64_t began = gmp_now();

		CHECK_EQ(select_by(i, 0, NULL, NULL, NULL, 20), 0);
		CHECK(gmp_now() - began >= 20000000);
	}
}

/* Linux writes back what is left of the time. */
POSIX_TEST(select_updates_its_timeout)
{
	struct timeval t = { 1000, 0 };
	fd_set in;
	int s[2];

	unix_pair(s);
	CHECK_EQ(write(s[1], "x", 1), 1);
	FD_ZERO(&in);
	FD_SET(s[0], &in);
	CHECK_EQ(select(s[0] + 1, &in, NULL, NULL, &t), 1);
	CHECK(t.tv_sec >= 900 && t.tv_sec <= 1000);
	CHECK_EQ(read(s[0], &t, 1), 1);
	t = (struct timeval){ 0, 10000 };
	CHECK_EQ(select(s[0] + 1, &in, NULL, NULL, &t), 0);
	CHECK(t.tv_sec == 0 && t.tv_usec == 0);
	CHECK(!FD_ISSET(s[0], &in));
	close_pair(s);
}

/* A peer that has hung up is no exception. */
POSIX_TEST(select_of_exceptions_ignores_a_hangup)
{
	skip_under_chaos();
	for (int i = 0; i < 2; i++) {
		fd_set except;
		int s[2];

		unix_pair(s);
		close(s[1]);
		FD_ZERO(&except);
		FD_SET(s[0], &except);
		CHECK_EQ(select_by(i, s[0] + 1, NULL, NULL, &except, 20), 0);
		CHECK(!FD_ISSET(s[0], &except));
		close(s[0]);
	}
}

/* --- epoll --- */

POSIX_TEST(epoll_bad_argument_is_an_error)
{
	struct epoll_event e;
	int ep = epoll_create1(0), s[2];
	volatile int negative = -1;

	CHECK_EQ(pipe(s), 0);
	CHECK_ERRNO(epoll_wait(-1, &e, 1, 0), EBADF);
	CHECK_ERRNO(epoll_wait(ep, &e, 0, -1), EINVAL);
	CHECK_ERRNO(epoll_wait(s[0], &e, 1, -1), EINVAL);
	CHECK_ERRNO(epoll_pwait(-1, &e, 1, 0, NULL), EBADF);
	CHECK_ERRNO(epoll_pwait(ep, &e, negative, -1, NULL), EINVAL);
	close_pair(s);
	close(ep);
}

POSIX_TEST(epoll_edge_is_reported_once)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(0), s[2];

	unix_pair(s);
	CHECK_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, s[0], &e), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(write(s[1], "x", 1), 1);
		CHECK_EQ(i ? epoll_pwait(ep, &e, 1, -1, NULL) : epoll_wait(ep, &e, 1, -1), 1);
		CHECK_EQ(epoll_wait(ep, &e, 1, 10), 0);
	}
	close_pair(s);
	close(ep);
}
