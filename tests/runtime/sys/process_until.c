/* SPDX-License-Identifier: MIT */
/* Tests gmp_waitpid_until: timeout, cancellation, races with the end of the child, shutdown. */
#define _GNU_SOURCE 1
#include "process_util.h"

static pid_t own(struct child *c)
{
	return c->pid;
}

static pid_t any(UNUSED struct child *c)
{
	return -1;
}

/* A wait by the child's pidfd, and a wait that has nothing to poll. */
static pid_t (*const kinds[])(struct child *c) = { own, any };

static void time_out(void *p)
{
	struct child *c = p;
	int status = -7;

	for (int i = 0; i < 2; i++) {
		pid_t pid = kinds[i](c);
		int64_t deadline = gmp_deadline(3 * MS);

		CHECK_EQ(gmp_waitpid_until(pid, &status, 0, deadline), -ETIMEDOUT);
		CHECK(gmp_now() >= deadline);
		CHECK_EQ(gmp_waitpid_until(pid, &status, 0, 0), -ETIMEDOUT);
		CHECK_EQ(gmp_waitpid_until(pid, &status, 0, INT64_MIN), -ETIMEDOUT);
		CHECK_EQ(gmp_waitpid_until(pid, &status, WUNTRACED, gmp_deadline(MS)), -ETIMEDOUT);
		CHECK_EQ(gmp_waitpid_until(pid, &status, WNOHANG, GMP_FOREVER), 0);
	}
	CHECK_EQ(status, -7);
}

RT(waitpid_timeout_leaves_child_unreaped)
{
	struct child c = start(5);
	int status, fds = count_fds();
	struct ext_thread f;

	time_out(&c);
	ext_thread_start(&f, time_out, &c);
	ext_thread_join(&f);
	CHECK_EQ(count_fds(), fds);
	CHECK_EQ(stats().descriptors, 0);
	let_go(&c);
	CHECK_EQ(gmp_waitpid_until(c.pid, &status, 0, gmp_deadline(PATIENCE)), c.pid);
	CHECK_EQ(WEXITSTATUS(status), 5);
	CHECK_EQ(gmp_waitpid_until(c.pid, &status, 0, GMP_FOREVER), -ECHILD);
	CHECK_EQ(gmp_waitpid_until(-1, &status, 0, GMP_FOREVER), -ECHILD);
	CHECK_EQ(gmp_waitpid_until(-1, &status, 0x40, GMP_FOREVER), -EINVAL);
}

struct timed {
	pid_t pid, result;
	int64_t deadline;
	int status;
};

static void wait_timed(void *arg)
{
	struct timed *t = arg;

	t->result = gmp_waitpid_until(t->pid, &t->status, 0, t->deadline);
}

RT(waitpid_before_deadline_returns_status)
{
	for (int i = 0; i < 4; i++) {
		struct child c = start(i + 1);
		struct timed t = { kinds[i % 2](&c), 0,
				   i < 2 ? GMP_FOREVER : gmp_deadline(PATIENCE), 0 };
		struct ext_thread f;
		gmp_g *g = NULL;

		if (i < 3)
			g = spawn(wait_timed, &t);
		else
			ext_thread_start(&f, wait_timed, &t);
		gmp_sleep(3 * MS);
		let_go(&c);
		if (g)
			join(g);
		else
			ext_thread_join(&f);
		CHECK_EQ(t.result, c.pid);
		CHECK_EQ(WEXITSTATUS(t.status), i + 1);
	}
}

static void wait_cancelled(void *arg)
{
	struct child *c = arg;

	for (int i = 0; i < 2; i++) {
		pid_t pid = kinds[i](c);
		CHECK_EQ(gmp_waitpid_until(pid, NULL, 0, GMP_FOREVER), -ECANCELED);
		CHECK_EQ(gmp_waitpid_until(pid, NULL, 0, 0), -ECANCELED);
		CHECK_EQ(gmp_waitpid_until(pid, NULL, 0, gmp_deadline(PATIENCE)), -ECANCELED);
		CHECK_EQ(gmp_cancel_mask(1), 0);
		CHECK_EQ(gmp_waitpid_until(pid, NULL, 0, gmp_deadline(MS)), -ETIMEDOUT);
		CHECK_EQ(gmp_cancel_mask(0), 0);
	}
}

RT(waitpid_cancelled_beats_timed_out)
{
	struct child c = start(0);
	int fds = count_fds();
	gmp_g *g = spawn(wait_cancelled, &c);

	gmp_sleep(2 * MS);
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
	CHECK_EQ(count_fds(), fds);
	let_go(&c);
	CHECK_EQ(gmp_waitpid(c.pid, NULL, 0), c.pid);
}

static void wait_forever_cut(void *pid)
{
	CHECK_EQ(gmp_waitpid_until((pid_t)(intptr_t)pid, NULL, 0, GMP_FOREVER), -ECANCELED);
}

RT(waitpid_for_any_child_is_cut_by_cancellation)
{
	struct child c = start(0);
	gmp_g *g = spawn(wait_forever_cut, (void *)(intptr_t)-1);

	gmp_sleep(5 * MS);
	CHECK_EQ(stats().greens_blocked, 0); /* the wait keeps no thread */
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
	let_go(&c);
	CHECK_EQ(gmp_waitpid(c.pid, NULL, 0), c.pid);
}

RT(waitpid_deadline_racing_end_of_child_reaps_once)
{
	for (int i = 0; i < 30; i++) {
		struct child c = start(i);
		int status = -1;
		pid_t r;

		let_go(&c);
		r = gmp_waitpid_until(c.pid, &status, 0, gmp_deadline(i % 15 * 50 * US));
		if (r == -ETIMEDOUT) {
			CHECK_EQ(status, -1);
			r = gmp_waitpid_until(c.pid, &status, 0, gmp_deadline(PATIENCE));
		}
		CHECK_EQ(r, c.pid);
		CHECK_EQ(WEXITSTATUS(status), i);
	}
	CHECK_EQ(stats().descriptors, 0);
}

RT(waitpid_without_spare_descriptor_times_out)
{
	struct child c = start(4);
	struct rlimit r, none;
	int status;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &r), 0);
	none = (struct rlimit){ 3, r.rlim_max }; /* open fds stay valid */
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	time_out(&c);
	let_go(&c);
	CHECK_EQ(gmp_waitpid_until(c.pid, &status, 0, gmp_deadline(PATIENCE)), c.pid);
	CHECK_EQ(WEXITSTATUS(status), 4);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &r), 0);
}

static void wait_in_virtual_time(void *arg)
{
	struct child *c = arg;

	time_out(c);
	let_go(c);
	/* the child needs real time to end, so the virtual clock must not jump */
	CHECK_EQ(gmp_waitpid_until(-1, NULL, 0, gmp_deadline(PATIENCE)), c->pid);
}

TEST(waitpid_in_virtual_time_waits_for_child)
{
	gmp_config cfg = GMP_CONFIG_INIT;
	struct child c = start(0);

	cfg.procs = 1;
	cfg.flags = GMP_VIRTUAL_TIME;
	CHECK_EQ(gmp_run(wait_in_virtual_time, &c, &cfg), 0);
}

static struct timed left[4];

static void leave_waiting(UNUSED void *arg)
{
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_go(wait_timed, &left[i]), 0);
	wait_parked(4);
}

TEST_PROCS(waitpid_shutdown_during_timed_wait_leaves_no_descriptor)
{
	need_pidfds();
	struct child c = start(6);
	int fds = count_fds();

	for (int i = 0; i < 4; i++)
		left[i] = (struct timed){ i % 2 ? c.pid : -1, 77, gmp_deadline(PATIENCE), 0 };
	run_procs(procs, leave_waiting, NULL);
	CHECK_EQ(count_fds(), fds);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(left[i].result, 77);
	let_go(&c);
	CHECK_EQ(waitpid(c.pid, NULL, 0), c.pid);
}

TEST(waitpid_stop_during_external_wait_returns_esrch)
{
	struct child c = start(6);
	struct timed t[2] = { { c.pid, 0, GMP_FOREVER, 0 }, { -1, 0, gmp_deadline(PATIENCE), 0 } };
	struct ext_thread f[2];

	CHECK_EQ(gmp_start(NULL), 0);
	for (int i = 0; i < 2; i++)
		ext_thread_start(&f[i], wait_timed, &t[i]);
	usleep(5000);
	CHECK_EQ(gmp_stop(), 0);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(pthread_join(f[i].thread, NULL), 0);
		CHECK_EQ(t[i].result, -ESRCH);
	}
	CHECK_EQ(gmp_waitpid_until(c.pid, NULL, 0, GMP_FOREVER), -ESRCH);
	let_go(&c);
	CHECK_EQ(waitpid(c.pid, NULL, 0), c.pid);
}
