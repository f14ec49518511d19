/* SPDX-License-Identifier: MIT */
/* Tests of waiting for children: what is told, who may wait, and that nobody else has to. */
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

RT(the_end_of_a_child_is_told_with_its_status)
{
	struct waiting w;
	struct ext_thread f;
	struct child c;

	one_child(NULL);
	ext_thread_start(&f, one_child, NULL);
	ext_thread_join(&f);
	c = start(0);
	w = (struct waiting){ .pid = c.pid };
	gmp_g *g = spawn(wait_for_it, &w);

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

RT(what_is_no_child_of_ours_is_echild)
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
			g[i] = spawn(wait_for_it, &w[i]);
		else
			ext_thread_start(&f, wait_for_it, &w[i]);
	}
	wait_parked(N - 1);
	CHECK(stats().threads < N); /* no thread each */
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

RT(many_wait_each_for_its_child_and_keep_no_thread)
{
	check_skip_on_valgrind("Valgrind knows no pidfds");
	many(NULL);
}

RT(of_two_who_wait_for_one_child_one_gets_it)
{
	check_skip_on_valgrind("Valgrind knows no pidfds");
	struct child c = start(3);
	struct waiting w[2] = { { .pid = c.pid }, { .pid = c.pid } };
	gmp_g *a = spawn(wait_for_it, &w[0]), *b = spawn(wait_for_it, &w[1]);

	wait_parked(2);
	let_go(&c);
	join(a);
	join(b);
	CHECK(w[0].result == c.pid || w[1].result == c.pid);
	CHECK(w[0].result == -ECHILD || w[1].result == -ECHILD);
}

RT(cancellation_ends_the_wait_for_one_child)
{
	check_skip_on_valgrind("Valgrind knows no pidfds");
	struct child c = start(5);
	struct waiting w = { .pid = c.pid };
	int fds = count_fds();
	gmp_g *g = spawn(wait_for_it, &w);

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
	g = spawn(wait_for_it, &w);
	run_a_while(); /* others run, on one P too */
	WAIT_FOR(stats().greens_blocked == 1);
	CHECK(!atomic_load(&w.done));
	let_go(&c);
	join(g);
	CHECK_EQ(w.result, c.pid);
	CHECK_EQ(WEXITSTATUS(w.status), 9);
}

RT(any_child_and_groups_go_the_way_of_blocking_code)
{
	wait_for_group(-1, 0);
	wait_for_group(0, 0);
	wait_for_group(0, 1);
}

RT(stops_are_told_to_who_asks_for_them)
{
	struct child c = start(0);
	struct waiting w = { .pid = c.pid, .flags = WUNTRACED };
	gmp_g *g = spawn(wait_for_it, &w);

	run_a_while();
	CHECK_EQ(kill(c.pid, SIGSTOP), 0);
	join(g);
	CHECK_EQ(w.result, c.pid);
	CHECK(WIFSTOPPED(w.status));
	w = (struct waiting){ .pid = c.pid, .flags = WCONTINUED };
	g = spawn(wait_for_it, &w);
	run_a_while();
	CHECK_EQ(kill(c.pid, SIGCONT), 0);
	join(g);
	CHECK_EQ(w.result, c.pid);
	CHECK(WIFCONTINUED(w.status));
	let_go(&c);
	CHECK_EQ(gmp_waitpid(c.pid, NULL, 0), c.pid);
}

RT(without_a_descriptor_to_spare_it_waits_as_blocking_code)
{
	struct child c = start(4);
	struct waiting w = { .pid = c.pid };
	struct rlimit r, none;
	gmp_g *g;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &r), 0);
	none = (struct rlimit){ 3, r.rlim_max }; /* those that are open stay */
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
	g = spawn(wait_for_it, &w);
	run_a_while();
	CHECK_EQ(stats().descriptors, 0);
	CHECK(!atomic_load(&w.done));
	let_go(&c);
	join(g);
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &r), 0);
	CHECK_EQ(w.result, c.pid);
	CHECK_EQ(WEXITSTATUS(w.status), 4);
}

RT(a_child_that_nobody_is_told_of_is_echild_in_the_end)
{
	check_skip_on_valgrind("Valgrind knows no pidfds");
	struct waiting w;
	struct child c;
	gmp_g *g;

	CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
	c = start(0);
	w = (struct waiting){ .pid = c.pid };
	g = spawn(wait_for_it, &w);
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
		CHECK_EQ(gmp_go(wait_for_it, &left[i]), 0);
	wait_parked(3);
}

TEST_PROCS(a_run_that_ends_meanwhile_leaves_no_descriptor)
{
	check_skip_on_valgrind("Valgrind knows no pidfds");
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

TEST(a_foreign_thread_that_waits_when_the_run_ends_gets_esrch)
{
	check_skip_on_valgrind("Valgrind knows no pidfds");
	struct child c = start(6);
	struct waiting w = { .pid = c.pid };
	struct ext_thread f;
	int fds = count_fds();

	CHECK_EQ(gmp_start(NULL), 0);
	ext_thread_start(&f, wait_for_it, &w);
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

RT(a_storm_of_signals_does_not_show)
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
