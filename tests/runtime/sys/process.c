/* SPDX-License-Identifier: MIT */
/* Tests gmp_waitpid: results, several waiters, cancellation, shutdown, and no thread per wait. */
#define _GNU_SOURCE 1
#include "process_util.h"

#include <sys/time.h>

static void run_a_while(void)
{
	for (int i = 0; i < 15; i++)
		gmp_sleep(MS);
}

static void one_child(UNUSED void *arg)
{
	struct child c = start(7);
	int status = -1;

	CHECK_EQ(gmp_waitpid(c.pid, &status, WNOHANG), 0);
	CHECK_EQ(status, -1);
	let_go(&c);
	CHECK_EQ(gmp_waitpid(c.pid, &status, 0), c.pid);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 7);
	CHECK_EQ(gmp_waitpid(c.pid, &status, 0), -ECHILD);
	CHECK_EQ(gmp_waitpid(c.pid, &status, WNOHANG), -ECHILD);
}

RT(waitpid_returns_status_of_ended_child)
{
	struct waiting w;
	struct ext_thread f;
	struct child c;

	one_child(NULL);
	ext_thread_start(&f, one_child, NULL);
	ext_thread_join(&f);
	c = start(0);
	w = (struct waiting){ .pid = c.pid };
	gmp_g *g = spawn(wait_for_child, &w);

	run_a_while();
	CHECK(!atomic_load(&w.done));
	CHECK_EQ(kill(c.pid, SIGKILL), 0);
	join(g);
	let_go(&c);
	CHECK_EQ(w.result, c.pid);
	CHECK(WIFSIGNALED(w.status));
	CHECK_EQ(WTERMSIG(w.status), SIGKILL);
	c = start(1);
	let_go(&c);
	CHECK_EQ(gmp_waitpid(c.pid, NULL, 0), c.pid);
	CHECK_EQ(stats().descriptors, 0);
}

RT(waitpid_of_non_child_returns_echild)
{
	int status;

	CHECK_EQ(gmp_waitpid(1, &status, 0), -ECHILD);
	CHECK_EQ(gmp_waitpid(getpid(), &status, 0), -ECHILD);
	CHECK_EQ(gmp_waitpid(-1, &status, 0), -ECHILD);
	CHECK_EQ(gmp_waitpid(0, &status, WNOHANG), -ECHILD);
	CHECK_EQ(gmp_waitpid(-getpid() - 100000, &status, 0), -ECHILD);
	CHECK_EQ(gmp_waitpid(1, &status, 0x40), -EINVAL);
}

static void many(UNUSED void *arg)
{
	enum { N = 25 };
	static struct waiting w[N];
	struct child c[N];
	struct ext_thread f;
	gmp_g *g[N];

	for (int i = 0; i < N; i++) {
		c[i] = start(i);
		w[i] = (struct waiting){ .pid = c[i].pid };
		if (i)
			g[i] = spawn(wait_for_child, &w[i]);
		else
			ext_thread_start(&f, wait_for_child, &w[i]);
	}
	wait_parked(N - 1);
	CHECK(stats().threads < N); /* not one thread per wait */
	for (int i = N; i-- > 0;) {
		for (int k = 0; k < i; k++)
			CHECK(!atomic_load(&w[k].done));
		let_go(&c[i]);
		if (i)
			join(g[i]);
		else
			ext_thread_join(&f);
		CHECK_EQ(w[i].result, w[i].pid);
		CHECK_EQ(WEXITSTATUS(w[i].status), i);
	}
}

RT(waitpid_of_25_children_uses_no_thread_each)
{
	need_pidfds();
	many(NULL);
}

RT(waitpid_of_same_child_by_two_waiters_reaps_once)
{
	need_pidfds();
	struct child c = start(3);
	struct waiting w[2] = { { .pid = c.pid }, { .pid = c.pid } };
	gmp_g *a = spawn(wait_for_child, &w[0]), *b = spawn(wait_for_child, &w[1]);

	wait_parked(2);
	let_go(&c);
	join(a);
	join(b);
	CHECK(w[0].result == c.pid || w[1].result == c.pid);
	CHECK(w[0].result == -ECHILD || w[1].result == -ECHILD);
}

static void take_any_child(void *pid)
{
	*(pid_t *)pid = waitpid(-1, NULL, 0);
}

/* gevent#452: two parts of a program wait for the same child, and one takes it. */
RT(waitpid_of_child_taken_by_other_code_returns)
{
	for (int i = 0; i < 10; i++) {
		struct child c = start(3);
		struct waiting w = { .pid = c.pid };
		gmp_g *g = spawn(wait_for_child, &w);
		struct ext_thread f;
		pid_t taken = 0;

		WAIT_FOR(stats().greens_waiting == 1 || stats().greens_blocked == 1);
		ext_thread_start(&f, take_any_child, &taken);
		let_go(&c);
		join(g);
		ext_thread_join(&f);
		CHECK(w.result == c.pid || w.result == -ECHILD);
		CHECK((w.result == c.pid) != (taken == c.pid));
	}
}

RT(waitpid_cancelled_leaves_child_unreaped)
{
	need_pidfds();
	struct child c = start(5);
	struct waiting w = { .pid = c.pid };
	int fds = count_fds();
	gmp_g *g = spawn(wait_for_child, &w);

	wait_parked(1);
	CHECK_EQ(gmp_cancel(g), 0);
	join(g);
	CHECK_EQ(w.result, -ECANCELED);
	CHECK_EQ(count_fds(), fds);
	let_go(&c);
	CHECK_EQ(gmp_waitpid(c.pid, &w.status, 0), c.pid);
	CHECK_EQ(WEXITSTATUS(w.status), 5);
}

static void wait_for_group(pid_t pid, pid_t group)
{
	struct waiting w = { .pid = pid };
	struct child c = start(9);
	gmp_g *g;

	if (group)
		CHECK_EQ(setpgid(c.pid, c.pid), 0);
	if (group)
		w.pid = -c.pid;
	g = spawn(wait_for_child, &w);
	run_a_while(); /* other Gs run, also on one P */
	WAIT_FOR(stats().greens_blocked == 1);
	CHECK(!atomic_load(&w.done));
	let_go(&c);
	join(g);
	CHECK_EQ(w.result, c.pid);
	CHECK_EQ(WEXITSTATUS(w.status), 9);
}

RT(waitpid_of_any_child_or_group_is_blocking_code)
{
	wait_for_group(-1, 0);
	wait_for_group(0, 0);
	wait_for_group(0, 1);
}

RT(waitpid_wuntraced_and_wcontinued_report_changes)
{
	struct child c = start(0);
	struct waiting w = { .pid = c.pid, .flags = WUNTRACED };
	gmp_g *g = spawn(wait_for_child, &w);

	run_a_while();
	CHECK_EQ(kill(c.pid, SIGSTOP), 0);
	join(g);
	CHECK_EQ(w.result, c.pid);
	CHECK(WIFSTOPPED(w.status));
	w = (struct waiting){ .pid = c.pid, .flags = WCONTINUED };
	g = spawn(wait_for_child, &w);
	run_a_while();
	CHECK_EQ(kill(c.pid, SIGCONT), 0);
	join(g);
	CHECK_EQ(w.result, c.pid);
	CHECK(WIFCONTINUED(w.status));
	let_go(&c);
	CHECK_EQ(gmp_waitpid(c.pid, NULL, 0), c.pid);
}

RT(waitpid_without_spare_fd_is_blocking_code)
{
	struct child c = start(4);
	struct waiting w = { .pid = c.pid };
	struct rlimit r, none;
	gmp_g *g;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &r), 0);
	none = (struct rlimit){ 3, r.rlim_max }; /* open fds stay valid */
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	g = spawn(wait_for_child, &w);
	run_a_while();
	CHECK_EQ(stats().descriptors, 0);
	CHECK(!atomic_load(&w.done));
	let_go(&c);
	join(g);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &r), 0);
	CHECK_EQ(w.result, c.pid);
	CHECK_EQ(WEXITSTATUS(w.status), 4);
}

RT(waitpid_with_sigchld_ignored_returns_echild)
{
	need_pidfds();
	struct waiting w;
	struct child c;
	gmp_g *g;

	CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
	c = start(0);
	w = (struct waiting){ .pid = c.pid };
	g = spawn(wait_for_child, &w);
	wait_parked(1);
	let_go(&c);
	join(g);
	CHECK_EQ(w.result, -ECHILD);
	CHECK(signal(SIGCHLD, SIG_DFL) != SIG_ERR);
}

static struct waiting left[3];

static void leave_waiting(UNUSED void *arg)
{
	for (int i = 0; i < 3; i++)
		CHECK_EQ(gmp_go(wait_for_child, &left[i]), 0);
	wait_parked(3);
}

TEST_PROCS(waitpid_killed_at_shutdown_leaks_no_fd)
{
	need_pidfds();
	struct child c = start(6);

	for (int i = 0; i < 3; i++)
		left[i] = (struct waiting){ .pid = c.pid };
	int fds = count_fds();

	for (int i = 0; i < 3; i++) {
		run_procs(procs, leave_waiting, NULL);
		CHECK_EQ(count_fds(), fds);
	}
	CHECK(!atomic_load(&left[0].done));
	let_go(&c);
	CHECK_EQ(waitpid(c.pid, NULL, 0), c.pid);
}

TEST(waitpid_by_external_thread_at_shutdown_returns_esrch)
{
	need_pidfds();
	struct child c = start(6);
	struct waiting w = { .pid = c.pid };
	struct ext_thread f;
	int fds = count_fds();

	CHECK_EQ(gmp_start(NULL), 0);
	ext_thread_start(&f, wait_for_child, &w);
	WAIT_FOR(stats().descriptors == 1);
	usleep(2000);
	CHECK_EQ(gmp_stop(), 0);
	CHECK_EQ(pthread_join(f.thread, NULL), 0);
	CHECK_EQ(w.result, -ESRCH);
	CHECK_EQ(count_fds(), fds);
	CHECK_EQ(gmp_waitpid(c.pid, NULL, 0), -ESRCH);
	let_go(&c);
	CHECK_EQ(waitpid(c.pid, NULL, 0), c.pid);
}

static void ignore(UNUSED int signo)
{
}

RT(waitpid_during_signals_every_100_us_works)
{
	struct itimerval t = { { 0, 100 }, { 0, 100 } };
	struct sigaction sa = { .sa_handler = ignore, .sa_flags = SA_ONSTACK }; /* no SA_RESTART */

	CHECK_EQ(sigaction(SIGALRM, &sa, NULL), 0);
	CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
	for (int i = 0; i < 3; i++) {
		one_child(NULL);
		wait_for_group(-1, 0);
	}
	t = (struct itimerval){ { 0, 0 }, { 0, 0 } };
	CHECK_EQ(setitimer(ITIMER_REAL, &t, NULL), 0);
}
