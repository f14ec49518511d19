/* SPDX-License-Identifier: MIT */
/*
 * Tests gmp_poll and gmp_accept_from.
 *
 * gmp_poll reports what poll(2) reports: for fds that gmp knows or does not know, which are opened
 * and closed during the wait, from green and external threads, and without a runtime.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "io_util.h"

enum { MOST = 300 };

struct polling {
	struct pollfd p[MOST];
	nfds_t n;
	int64_t deadline, ended;
	atomic_int begun, done, result;
};

static void poll_it(void *arg)
{
	struct polling *x = arg;

	atomic_store(&x->begun, 1);
	atomic_store(&x->result, gmp_poll(x->p, x->n, x->deadline));
	x->ended = gmp_now();
	atomic_store(&x->done, 1);
}

static void prepare(struct polling *x, int fd, short events)
{
	*x = (struct polling){ .n = 1, .deadline = gmp_deadline(PATIENCE) };
	x->p[0] = (struct pollfd){ .fd = fd, .events = events };
}

static gmp_g *start(struct polling *x, int fd, short events)
{
	prepare(x, fd, events);
	return spawn(poll_it, x);
}

static void plain_write(int fd)
{
	CHECK_EQ(write(fd, "x", 1), 1);
}

static void plain_read(int fd)
{
	char c;

	CHECK_EQ(read(fd, &c, 1), 1);
}

static void make_pipe(int p[2])
{
	CHECK_EQ(pipe2(p, O_CLOEXEC), 0);
}

static void end_pipe(int p[2])
{
	CHECK_EQ(close(p[0]), 0);
	CHECK_EQ(close(p[1]), 0);
}

/* By syscall: this race is intended, and a sanitizer would report it for close(2). */
static void plain_close(int fd)
{
	CHECK_EQ(syscall(SYS_close, fd), 0);
}

static void plain_dup2(int from, int to)
{
	CHECK_EQ(syscall(SYS_dup3, from, to, O_CLOEXEC), to);
}

static int poll_one(int fd, short events, int64_t deadline, short *revents)
{
	struct pollfd p = { .fd = fd, .events = events, .revents = 0x55 };
	int n = gmp_poll(&p, 1, deadline);

	*revents = p.revents;
	return n;
}

/* --- as poll(2) --- */

static void same_as_poll2(struct pollfd *p, nfds_t n)
{
	struct pollfd q[8];

	CHECK(n <= 8);
	for (nfds_t i = 0; i < n; i++)
		q[i] = p[i];
	int expected = poll(q, n, 0), got = gmp_poll(p, n, 0);

	CHECK_EQ(got, expected ? expected : -ETIMEDOUT);
	for (nfds_t i = 0; i < n; i++)
		CHECK_EQ(p[i].revents, q[i].revents);
}

/* One fd of each kind, also a negative and a bad fd, and one fd twice. */
static void compare_with_poll2(void)
{
	int full[2], empty[2], left[2], s[2], file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	make_pipe(full);
	make_pipe(empty);
	make_pipe(left);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	CHECK(file >= 0);
	plain_write(full[1]);
	CHECK_EQ(close(left[1]), 0);
	struct pollfd p[8] = {
		{ .fd = full[0], .events = POLLIN }, { .fd = empty[0], .events = POLLIN },
		{ .fd = left[0], .events = 0 },      { .fd = s[0], .events = POLLOUT | POLLIN },
		{ .fd = file, .events = POLLIN },    { .fd = -7, .events = POLLIN, .revents = 3 },
		{ .fd = 100000, .events = POLLOUT }, { .fd = full[0], .events = POLLIN | POLLOUT },
	};
	same_as_poll2(p, 8);
	CHECK_EQ(p[2].revents, POLLHUP);
	CHECK_EQ(p[6].revents, POLLNVAL);
	for (nfds_t i = 0; i < 8; i++)
		same_as_poll2(&p[i], 1);
	CHECK_EQ(shutdown(s[1], SHUT_WR), 0);
	p[3].events = POLLRDHUP;
	same_as_poll2(&p[3], 1);
	CHECK_EQ(p[3].revents, POLLRDHUP);
	CHECK_EQ(gmp_poll(NULL, 1, 0), -EFAULT);
	if (!SANITIZED) /* a sanitizer reads all entries */
		CHECK_EQ(gmp_poll(p, 1 << 30, 0), -EINVAL);
	CHECK_EQ(close(left[0]), 0);
	end_pipe(full);
	end_pipe(empty);
	end_pipe(s);
	CHECK_EQ(close(file), 0);
}

static void compare_it(void *arg)
{
	(void)arg;
	compare_with_poll2();
}

RT(poll_try_reports_what_poll2_reports)
{
	struct ext_thread f;

	compare_with_poll2();
	ext_thread_start(&f, compare_it, NULL);
	ext_thread_join(&f);
}

static void poll_unreadable(void *fds)
{
	CHECK_EQ(gmp_poll(fds, 1, 0), -EFAULT);
	CHECK_EQ(gmp_poll(fds, 40, gmp_deadline(MS)), -EFAULT);
	CHECK_EQ(gmp_poll(fds, 40, GMP_FOREVER), -EFAULT);
}

/* The first entry can be read, the second cannot. */
static void poll_unreadable_tail(char *page)
{
	struct pollfd *p = (struct pollfd *)page - 1;

	*p = (struct pollfd){ .fd = -1, .events = POLLIN };
	CHECK_EQ(gmp_poll(p, 2, GMP_FOREVER), -EFAULT);
}

static void poll_unreadable_fds(void *arg)
{
	long size = sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * (size_t)size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	CHECK(pages != MAP_FAILED);
	CHECK_EQ(mprotect(pages + size, (size_t)size, PROT_NONE), 0);
	poll_unreadable(pages + size);
	poll_unreadable_tail(pages + size);
	CHECK_EQ(munmap(pages, 2 * (size_t)size), 0);
}

RT(poll_unreadable_fds_returns_efault)
{
	struct ext_thread f;

	poll_unreadable_fds(NULL);
	gmp_blocking(poll_unreadable_fds(NULL));
	ext_thread_start(&f, poll_unreadable_fds, NULL);
	ext_thread_join(&f);
}

TEST(poll_unreadable_fds_without_runtime_returns_efault)
{
	poll_unreadable_fds(NULL);
}

/* The low 32 bits of the first two are a valid number; the others overflow a size of entries. */
static void poll_too_many(void *arg)
{
	static const uint64_t n[] = { UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1,
				      (UINT64_C(1) << 61) + 1, (UINT64_C(1) << 58) + 1,
				      UINT64_MAX };
	struct pollfd p = { .fd = -1, .events = POLLIN };

	(void)arg;
	for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
		CHECK_EQ(gmp_poll(&p, (nfds_t)n[i], 0), -EINVAL);
		CHECK_EQ(gmp_poll(&p, (nfds_t)n[i], gmp_deadline(MS)), -EINVAL);
	}
	if (!SANITIZED) /* a sanitizer reads all records before the call */
		CHECK_EQ(gmp_poll(&p, UINT32_MAX, 0), -EINVAL); /* above RLIMIT_NOFILE */
}

RT(poll_of_2_to_the_32_or_more_returns_einval)
{
	struct ext_thread f;

	poll_too_many(NULL);
	ext_thread_start(&f, poll_too_many, NULL);
	ext_thread_join(&f);
}

TEST(poll_without_runtime_works)
{
	struct pollfd none = { .fd = -1, .events = POLLIN };
	int64_t began = gmp_now();
	short revents;
	int p[2];

	compare_with_poll2();
	CHECK_EQ(gmp_poll(NULL, 0, gmp_deadline(3 * MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_poll(&none, 1, gmp_deadline(3 * MS)), -ETIMEDOUT);
	CHECK(gmp_now() - began >= 6 * MS);
	make_pipe(p);
	CHECK_EQ(poll_one(p[0], POLLIN, gmp_deadline(3 * MS), &revents), -ETIMEDOUT);
	CHECK_EQ(revents, 0);
	CHECK_EQ(poll_one(p[0], POLLIN, INT64_MIN, &revents), -ETIMEDOUT);
	plain_write(p[1]);
	CHECK_EQ(poll_one(p[0], POLLIN, GMP_FOREVER, &revents), 1);
	CHECK_EQ(revents, POLLIN);
	end_pipe(p);
}

/* --- waiting --- */

RT(poll_of_unknown_fd_wakes_and_leaves_flags_unchanged)
{
	struct polling x;
	int p[2];

	make_pipe(p);
	for (int i = 0; i < 5; i++) {
		gmp_g *g = start(&x, p[0], POLLIN);

		if (i & 1)
			wait_parked(1);
		plain_write(p[1]);
		join(g);
		CHECK_EQ(x.result, 1);
		CHECK_EQ(x.p[0].revents, POLLIN);
		plain_read(p[0]);
	}
	CHECK(!(fcntl(p[0], F_GETFL) & O_NONBLOCK));
	CHECK_EQ(gmp_read(p[0], &x, 1), -EBADF);
	CHECK_EQ(gmp_fd_wait(p[0], GMP_READ, 0), -EBADF);
	CHECK_EQ(gmp_fd_release(p[0]), -EBADF);
	CHECK_EQ(stats().descriptors, 0);
	end_pipe(p);
}

RT(poll_wakes_for_any_of_many_descriptors)
{
	static struct polling x;
	enum { N = 40 };
	int p[N][2];

	for (int i = 0; i < N; i++)
		make_pipe(p[i]);
	for (int k = 0; k < N; k++) {
		x = (struct polling){ .n = N, .deadline = gmp_deadline(PATIENCE) };
		for (int i = 0; i < N; i++)
			x.p[i] = (struct pollfd){ .fd = i % 7 == 6 ? -1 : p[i][0],
						  .events = POLLIN };
		int at = k % 7 == 6 ? k - 1 : k;
		gmp_g *g = spawn(poll_it, &x);

		wait_parked(1);
		plain_write(p[at][1]);
		join(g);
		CHECK_EQ(x.result, 1);
		for (int i = 0; i < N; i++)
			CHECK_EQ(x.p[i].revents, i == at ? POLLIN : 0);
		plain_read(p[at][0]);
	}
	for (int i = 0; i < N; i++)
		end_pipe(p[i]);
}

RT(poll_reports_hang_up_error_and_urgent_data_while_waiting)
{
	struct polling x;
	static char room[4096];
	int p[2], a, b;

	make_pipe(p);
	gmp_g *g = start(&x, p[0], 0);

	wait_parked(1);
	CHECK_EQ(close(p[1]), 0);
	join(g);
	CHECK_EQ(x.result, 1);
	CHECK_EQ(x.p[0].revents, POLLHUP);
	CHECK_EQ(close(p[0]), 0);

	make_pipe(p);
	CHECK_EQ(fcntl(p[1], F_SETFL, O_NONBLOCK), 0);
	while (write(p[1], room, sizeof(room)) > 0)
		;
	g = start(&x, p[1], POLLOUT);
	wait_parked(1);
	CHECK_EQ(close(p[0]), 0);
	join(g);
	CHECK_EQ(x.p[0].revents, POLLERR);
	CHECK_EQ(close(p[1]), 0);

	make_pair("tcp", &a, &b); /* fds that gmp knows */
	g = start(&x, a, POLLPRI);
	wait_parked(1);
	CHECK_EQ(send(b, "!", 1, MSG_OOB), 1);
	join(g);
	CHECK(x.p[0].revents & POLLPRI);
	CHECK_EQ(recv(a, room, 1, MSG_OOB), 1);
	g = start(&x, a, POLLRDHUP);
	wait_parked(1);
	CHECK_EQ(gmp_shutdown(b, SHUT_WR), 0);
	join(g);
	CHECK_EQ(x.p[0].revents, POLLRDHUP);
	close_pair(a, b);
}

RT(poll_of_one_descriptor_several_times_reports_each)
{
	struct polling x;
	int s[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	for (int known = 0; known < 2; known++) {
		if (known)
			CHECK_EQ(gmp_fd_adopt(s[0]), s[0]);
		prepare(&x, s[0], POLLIN);
		x.n = 4;
		x.p[1] = (struct pollfd){ .fd = s[0], .events = POLLPRI };
		x.p[2] = x.p[3] = x.p[0];
		gmp_g *g = spawn(poll_it, &x);

		wait_parked(1);
		plain_write(s[1]);
		join(g);
		CHECK_EQ(x.result, 3);
		CHECK_EQ(x.p[0].revents, POLLIN);
		CHECK_EQ(x.p[1].revents, 0);
		CHECK_EQ(x.p[3].revents, POLLIN);
		CHECK_EQ(recv(s[0], &x, 1, 0), 1);
	}
	CHECK_EQ(gmp_fd_release(s[0]), 0);
	end_pipe(s);
}

RT(poll_of_one_descriptor_by_several_threads_wakes_all)
{
	static struct polling x[6];
	struct ext_thread f[2];
	gmp_g *g[4];
	int s[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	for (int known = 0; known < 2; known++) {
		if (known)
			CHECK_EQ(gmp_fd_adopt(s[0]), s[0]);
		for (int i = 0; i < 4; i++)
			g[i] = start(&x[i], s[0], i & 1 ? POLLIN : POLLIN | POLLPRI);
		for (int i = 4; i < 6; i++) {
			prepare(&x[i], s[0], POLLIN);
			ext_thread_start(&f[i - 4], poll_it, &x[i]);
		}
		wait_parked(4);
		plain_write(s[1]);
		for (int i = 0; i < 4; i++)
			join(g[i]);
		for (int i = 0; i < 2; i++)
			ext_thread_join(&f[i]);
		for (int i = 0; i < 6; i++) {
			CHECK_EQ(x[i].result, 1);
			CHECK_EQ(x[i].p[0].revents, POLLIN);
		}
		CHECK_EQ(recv(s[0], x, 1, 0), 1);
	}
	CHECK_EQ(gmp_fd_release(s[0]), 0);
	end_pipe(s);
}

/* --- the end of a wait --- */

RT(poll_ends_at_its_deadline)
{
	struct polling x;
	int p[2];

	make_pipe(p);
	prepare(&x, p[0], POLLIN);
	for (int n = 0; n < 2; n++) {
		CHECK_EQ(gmp_poll(x.p, (nfds_t)n, 0), -ETIMEDOUT);
		CHECK_EQ(gmp_poll(x.p, (nfds_t)n, INT64_MIN), -ETIMEDOUT);
		for (int i = 0; i < 3; i++) {
			int64_t deadline = gmp_deadline(2 * MS);

			CHECK_EQ(gmp_poll(x.p, (nfds_t)n, deadline), -ETIMEDOUT);
			CHECK(gmp_now() >= deadline);
			CHECK_EQ(x.p[0].revents, 0);
		}
	}
	x.p[0].fd = -1;
	CHECK_EQ(gmp_poll(x.p, 1, gmp_deadline(2 * MS)), -ETIMEDOUT);
	end_pipe(p);
}

RT(poll_is_ended_by_cancellation)
{
	struct polling x;
	int p[2];

	make_pipe(p);
	for (int i = 0; i < 4; i++) {
		prepare(&x, i & 1 ? p[0] : -1, POLLIN);
		x.deadline = i & 2 ? GMP_FOREVER : gmp_deadline(PATIENCE);
		gmp_g *g = spawn(poll_it, &x);

		wait_parked(1);
		CHECK_EQ(gmp_cancel(g), 0);
		join(g);
		CHECK_EQ(x.result, -ECANCELED);
	}
	end_pipe(p);
}

/* A regular file has no urgent data, and cannot be watched: it must not spin. */
RT(poll_of_regular_file_for_pollpri_ends_at_deadline)
{
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct polling x;
	int p[2];

	CHECK(file >= 0);
	make_pipe(p);
	prepare(&x, file, POLLPRI);
	x.n = 2;
	x.p[1] = (struct pollfd){ .fd = p[0], .events = POLLIN };
	CHECK_EQ(gmp_poll(x.p, 2, gmp_deadline(5 * MS)), -ETIMEDOUT);
	gmp_g *g = spawn(poll_it, &x);

	wait_parked(1);
	plain_write(p[1]);
	join(g);
	CHECK_EQ(x.result, 1);
	CHECK_EQ(close(file), 0);
	end_pipe(p);
}

/* --- descriptors that gmp knows --- */

static void read_one(void *arg)
{
	struct polling *x = arg;
	char c;

	atomic_store(&x->result, (int)gmp_read(x->p[0].fd, &c, 1));
}

RT(poll_of_known_fd_keeps_fifo_order_of_readers)
{
	FOR_NETS(net)
	{
		static struct polling r[3], x[2];
		gmp_g *gr[3], *gx[2];
		int a, b;

		make_pair(net, &a, &b);
		for (int i = 0; i < 3; i++) {
			prepare(&r[i], a, 0);
			gr[i] = spawn(read_one, &r[i]);
			wait_parked((uint64_t)i + 1);
		}
		for (int i = 0; i < 2; i++)
			gx[i] = start(&x[i], a, POLLIN);
		wait_parked(5);
		for (int i = 0; i < 3; i++) {
			say(b, "x");
			join(gr[i]);
			CHECK_EQ(r[i].result, 1);
			for (int k = i + 1; k < 3; k++)
				CHECK_EQ(atomic_load(&r[k].result), 0);
		}
		say(b, "y"); /* for polls that found the former data consumed */
		for (int i = 0; i < 2; i++) {
			join(gx[i]);
			CHECK_EQ(x[i].result, 1);
		}
		hear(a, "y");
		close_pair(a, b);
	}
}

RT(poll_across_adopt_and_release_continues)
{
	struct polling x, y;
	int s[2];

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	for (int i = 0; i < 3; i++) {
		gmp_g *g = start(&x, s[0], POLLIN);

		wait_parked(1);
		CHECK_EQ(gmp_fd_adopt(s[0]), s[0]);
		CHECK_EQ(gmp_fd_adopt(s[0]), -EEXIST);
		gmp_g *later = start(&y, s[0], POLLIN);

		wait_parked(2);
		if (i)
			CHECK_EQ(gmp_fd_release(s[0]), 0);
		CHECK_EQ(gmp_sleep(MS), 0);
		CHECK_EQ(atomic_load(&x.done) + atomic_load(&y.done), 0);
		plain_write(s[1]);
		join(g);
		join(later);
		CHECK_EQ(x.result, 1);
		CHECK_EQ(y.result, 1);
		if (!i) {
			hear(s[0], "x");
			CHECK_EQ(gmp_fd_release(s[0]), 0);
		} else {
			plain_read(s[0]);
		}
		CHECK(!(fcntl(s[0], F_GETFL) & O_NONBLOCK));
	}
	end_pipe(s);
}

RT(poll_of_closed_descriptor_reports_pollnval)
{
	for (int how = 0; how < 3; how++) { /* 0 gmp_close; 1, 2 close(2) of a known, unknown fd */
		static struct polling x[2];
		struct ext_thread f;
		int s[2];

		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s), 0);
		if (how < 2)
			CHECK_EQ(gmp_fd_adopt(s[0]), s[0]);
		gmp_g *g = start(&x[0], s[0], POLLIN);

		prepare(&x[1], s[0], POLLIN);
		ext_thread_start(&f, poll_it, &x[1]);
		WAIT_FOR(atomic_load(&x[1].begun));
		wait_parked(1);
		CHECK_EQ(gmp_sleep(2 * MS), 0);
		int64_t began = gmp_now();

		if (how == 0)
			CHECK_EQ(gmp_close(s[0]), 0);
		else
			plain_close(s[0]);
		join(g);
		ext_thread_join(&f);
		for (int i = 0; i < 2; i++) {
			CHECK_EQ(x[i].result, 1);
			CHECK_EQ(x[i].p[0].revents, POLLNVAL);
			CHECK(x[i].ended - began <
			      (how ? 1000 * MS : 0) + (SANITIZED ? 3000 : 400) * MS);
		}
		CHECK_EQ(close(s[1]), 0);
		if (how == 1)
			(void)gmp_close(s[0]);
	}
}

/* The call waits for the file that the fd refers to now. */
RT(poll_of_reopened_fd_waits_for_new_file)
{
	for (int known = 0; known < 2; known++) {
		struct polling x;
		int s[2], p[2];

		CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s), 0);
		if (known)
			CHECK_EQ(gmp_fd_adopt(s[0]), s[0]);
		gmp_g *g = start(&x, s[0], POLLIN);

		wait_parked(1);
		make_pipe(p);
		plain_dup2(p[0], s[0]); /* during the wait: noticed within a second */
		plain_write(p[1]);
		join(g);
		CHECK_EQ(x.result, 1);
		plain_read(p[0]);
		end_pipe(p);
		for (int i = 0; i < 3; i++) { /* before the wait */
			make_pipe(p);
			plain_dup2(p[0], s[0]);
			g = start(&x, s[0], POLLIN);
			wait_parked(1);
			plain_write(p[1]);
			join(g);
			CHECK_EQ(x.result, 1);
			CHECK(!(fcntl(s[0], F_GETFL) & O_NONBLOCK));
			end_pipe(p);
		}
		if (known) { /* gmp_fd_wait finds the new file */
			make_pipe(p);
			plain_dup2(p[0], s[0]);
			CHECK_EQ(close(p[0]), 0);
			CHECK_EQ(gmp_poll(x.p, 1, gmp_deadline(MS)), -ETIMEDOUT);
			CHECK_EQ(gmp_fd_wait(s[0], GMP_READ, gmp_deadline(MS)), -ETIMEDOUT);
			g = start(&x, s[0], POLLIN);
			wait_parked(1);
			plain_write(p[1]);
			join(g);
			CHECK_EQ(gmp_fd_wait(s[0], GMP_READ, gmp_deadline(PATIENCE)), GMP_READ);
			CHECK_EQ(gmp_close(s[0]), 0);
			CHECK_EQ(close(p[1]), 0);
		} else {
			CHECK_EQ(close(s[0]), 0);
		}
		CHECK_EQ(close(s[1]), 0);
	}
}

/* --- the end of the run --- */

static struct polling left[3];
static int left_pipe[2];

static void leave_polls(void *arg)
{
	(void)arg;
	make_pipe(left_pipe);
	for (int i = 0; i < 3; i++) {
		prepare(&left[i], left_pipe[0], POLLIN);
		left[i].n = i == 2 ? 100 : 1; /* allocates memory */
		for (nfds_t k = 1; k < left[i].n; k++)
			left[i].p[k] = left[i].p[0];
	}
	CHECK_EQ(gmp_go(poll_it, &left[0]), 0);
	CHECK_EQ(gmp_go(poll_it, &left[2]), 0);
	wait_parked(2);
}

TEST_PROCS(poll_killed_at_shutdown_leaves_nothing)
{
	for (int i = 0; i < 3; i++) {
		run_procs(procs, leave_polls, NULL);
		CHECK_EQ(atomic_load(&left[0].done), 0);
		end_pipe(left_pipe);
	}
}

/* An external thread polls without the runtime, so a shutdown does not end its wait. */
TEST(poll_on_external_thread_outlives_runtime)
{
	struct ext_thread f;
	int p[2];

	make_pipe(p);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(gmp_start(NULL), 0);
		prepare(&left[0], p[0], POLLIN);
		f = (struct ext_thread){ .fn = poll_it, .arg = &left[0] };
		CHECK_EQ(pthread_create(&f.thread, NULL, ext_thread_main, &f), 0);
		while (!atomic_load(&left[0].begun))
			sched_yield();
		usleep(2000);
		CHECK_EQ(gmp_stop(), 0);
		usleep(2000);
		CHECK_EQ(atomic_load(&left[0].done), 0);
		plain_write(p[1]);
		CHECK_EQ(pthread_join(f.thread, NULL), 0);
		CHECK_EQ(left[0].result, 1);
		plain_read(p[0]);
	}
	end_pipe(p);
}

/* --- accept --- */

RT(accept_from_returns_peer_address)
{
	struct sockaddr_in at, own;
	socklen_t n = sizeof(own);
	char addr[128];
	int l = listen_any("tcp", addr), c, s;

	for (int i = 0; i < 3; i++) {
		c = gmp_dial("tcp", addr);
		CHECK(c >= 0);
		memset(&at, 0, sizeof(at));
		socklen_t len = i == 1 ? 4 : sizeof(at);

		s = i == 2 ? gmp_accept_from(l, NULL, NULL)
			   : gmp_accept_from(l, (struct sockaddr *)&at, &len);
		CHECK(s >= 0);
		if (i < 2)
			CHECK_EQ(len, sizeof(at));
		CHECK_EQ(getsockname(c, (struct sockaddr *)&own, &n), 0);
		if (i < 2)
			CHECK_EQ(at.sin_port, own.sin_port);
		CHECK_EQ(at.sin_addr.s_addr, i == 0 ? own.sin_addr.s_addr : 0);
		say(c, "hello");
		hear(s, "hello");
		close_pair(c, s);
	}
	CHECK_EQ(gmp_accept_from(l, (struct sockaddr *)&at, NULL), -EINVAL);
	CHECK_EQ(gmp_close(l), 0);
	n = sizeof(at);
	CHECK_EQ(gmp_accept_from(l, (struct sockaddr *)&at, &n), -EBADF);
}

TEST(accept_from_without_runtime_returns_esrch)
{
	CHECK_EQ(gmp_accept_from(0, NULL, NULL), -ESRCH);
}
