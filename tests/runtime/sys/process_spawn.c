/* SPDX-License-Identifier: MIT */
/* Tests gmp_process_spawn: what the child inherits, and that a failure leaves no child or fd. */
#define _GNU_SOURCE 1
#include "process_util.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#define ARGV(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define SH(script) ARGV("/bin/sh", "-c", script)

static gmp_process_opts opts_for(const char *const *argv)
{
	gmp_process_opts o = GMP_PROCESS_OPTS_INIT;

	o.argv = argv;
	return o;
}

static int exit_status(pid_t pid)
{
	int status;

	CHECK_EQ(gmp_waitpid_until(pid, &status, 0, gmp_deadline(PATIENCE)), pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Run a child; copies its output to buf and returns its exit status. */
static int output_of(gmp_process_opts o, char *buf, size_t n)
{
	gmp_process p;

	o.out.kind = GMP_PROCESS_PIPE;
	CHECK_EQ(gmp_process_spawn(&p, &o), 0);
	CHECK(p.pid > 0 && p.in == -1 && p.out > 2 && p.err == -1);
	ssize_t got = gmp_read_full(p.out, buf, n - 1);

	CHECK(got >= 0);
	buf[got] = 0;
	gmp_process_close(&p);
	CHECK(p.in == -1 && p.out == -1 && p.err == -1 && p.pidfd == -1);
	return exit_status(p.pid);
}

static void check_output(gmp_process_opts o, const char *wanted)
{
	char buf[4096];

	CHECK_EQ(output_of(o, buf, sizeof(buf)), 0);
	CHECK_STR(buf, wanted);
}

static void run_some(UNUSED void *arg)
{
	int fds = count_fds();
	char buf[64];

	check_output(opts_for(ARGV("/bin/echo", "a", "b c")), "a b c\n");
	CHECK_EQ(output_of(opts_for(SH("echo x; exit 7")), buf, sizeof(buf)), 7);
	CHECK_STR(buf, "x\n");
	CHECK_EQ(count_fds(), fds);
}

RT(spawn_child_runs_and_its_status_is_read)
{
	struct ext_thread f;

	run_some(NULL); /* the runtime has opened its fds now */
	run_some(NULL);
	ext_thread_start(&f, run_some, NULL);
	ext_thread_join(&f);
	CHECK_EQ(stats().descriptors, 0);
}

RT(spawn_pidfd_is_readable_after_end)
{
	check_skip_on_valgrind("Valgrind knows no pidfds");
	gmp_process_opts o = opts_for(SH("read line; exit 3"));
	gmp_process p;

	o.in.kind = GMP_PROCESS_PIPE;
	CHECK_EQ(gmp_process_spawn(&p, &o), 0);
	if (!have_pidfds()) {
		CHECK_EQ(p.pidfd, -1);
		CHECK_EQ(gmp_write_all(p.in, "go\n", 3), 3);
		CHECK_EQ(exit_status(p.pid), 3);
		gmp_process_close(&p);
		return;
	}
	CHECK(p.pidfd > 2);
	CHECK_EQ(gmp_fd_wait(p.pidfd, GMP_READ, gmp_deadline(3 * MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_waitpid_until(p.pid, NULL, 0, gmp_deadline(MS)), -ETIMEDOUT);
	CHECK_EQ(gmp_write_all(p.in, "go\n", 3), 3);
	CHECK_EQ(gmp_fd_wait(p.pidfd, GMP_READ, gmp_deadline(PATIENCE)), GMP_READ);
	gmp_process_close(&p);
	CHECK_EQ(exit_status(p.pid), 3);
}

/* --- streams --- */

enum { LARGE = 1 << 20 };

static void write_large(void *fd)
{
	char *bytes = calloc(1, LARGE);

	CHECK(bytes != NULL);
	CHECK_EQ(gmp_write_all(*(int *)fd, bytes, LARGE), LARGE);
	CHECK_EQ(gmp_close(*(int *)fd), 0);
	free(bytes);
}

/* More than the two pipes hold, in both directions at once. */
RT(spawn_large_input_passes_through_child)
{
	gmp_process_opts o = opts_for(ARGV("/bin/cat"));
	char *bytes = calloc(1, LARGE + 1);
	gmp_process p;

	CHECK(bytes != NULL);
	o.in.kind = o.out.kind = GMP_PROCESS_PIPE;
	CHECK_EQ(gmp_process_spawn(&p, &o), 0);
	gmp_g *writer = spawn(write_large, &p.in);

	CHECK_EQ(gmp_read_full(p.out, bytes, LARGE + 1), LARGE);
	join(writer);
	p.in = -1;
	gmp_process_close(&p);
	CHECK_EQ(exit_status(p.pid), 0);
	free(bytes);
}

RT(spawn_streams_go_where_opts_say)
{
	gmp_process_opts o = opts_for(SH("echo out; echo err >&2"));
	char path[] = "/tmp/gmp-test-spawn-XXXXXX", buf[64];
	int fd = mkstemp(path);
	gmp_process p;

	CHECK(fd >= 0);
	o.err.kind = GMP_PROCESS_STDOUT;
	check_output(o, "out\nerr\n");
	o.err.kind = GMP_PROCESS_NULL;
	check_output(o, "out\n");
	o.err = (gmp_process_stream){ GMP_PROCESS_FD, fd };
	check_output(o, "out\n");
	CHECK_EQ(pread(fd, buf, sizeof(buf), 0), 4);
	CHECK(memcmp(buf, "err\n", 4) == 0);
	CHECK_EQ(fcntl(fd, F_GETFD), 0); /* the caller's fd is unchanged */
	o.out.kind = GMP_PROCESS_NULL;
	o.err.kind = GMP_PROCESS_PIPE;
	CHECK_EQ(gmp_process_spawn(&p, &o), 0);
	CHECK_EQ(gmp_read_full(p.err, buf, sizeof(buf)), 4);
	gmp_process_close(&p);
	CHECK_EQ(exit_status(p.pid), 0);
	o = opts_for(ARGV("/bin/cat"));
	o.in.kind = GMP_PROCESS_NULL;
	check_output(o, "");
	CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
	o.in = (gmp_process_stream){ GMP_PROCESS_FD, fd };
	check_output(o, "err\n");
	CHECK_EQ(close(fd), 0);
	unlink(path);
}

/* Blocking in the child, although the parent's ends are not. */
RT(spawn_pipe_ends_of_child_are_blocking)
{
	gmp_process_opts o = opts_for(SH("cat /proc/self/fdinfo/0 /proc/self/fdinfo/1"));
	char buf[1024], *line = buf;
	gmp_process p;

	o.in.kind = o.out.kind = GMP_PROCESS_PIPE;
	CHECK_EQ(gmp_process_spawn(&p, &o), 0);
	ssize_t n = gmp_read_full(p.out, buf, sizeof(buf) - 1);

	CHECK(n > 0);
	buf[n] = 0;
	for (int i = 0; i < 2; i++) {
		line = strstr(line, "flags:");
		CHECK(line != NULL);
		CHECK_EQ(strtol(line += 6, NULL, 8) & O_NONBLOCK, 0);
	}
	gmp_process_close(&p);
	CHECK_EQ(exit_status(p.pid), 0);
}

/* --- what the child inherits --- */

RT(spawn_passes_environment_directory_and_path)
{
	gmp_process_opts o = opts_for(SH("echo $GMP_TEST_A-$GMP_TEST_B; pwd"));

	CHECK_EQ(setenv("GMP_TEST_A", "ours", 1), 0);
	o.cwd = "/usr";
	check_output(o, "ours-\n/usr\n");
	o.envp = ARGV("GMP_TEST_B=theirs");
	check_output(o, "-theirs\n/usr\n");
	o.envp = (const char *const[]){ NULL };
	check_output(o, "-\n/usr\n");
	o = opts_for(ARGV("sh", "-c", "echo $0 $1", "name", "x"));
	o.flags = GMP_PROCESS_SEARCH;
	check_output(o, "name x\n");
	o = opts_for(ARGV("another name", "-c", "echo $0"));
	o.file = "/bin/sh";
	check_output(o, "another name\n");
	CHECK_EQ(unsetenv("GMP_TEST_A"), 0);
}

static uint64_t mask_of(const char *status, const char *key)
{
	const char *at = strstr(status, key);

	CHECK(at != NULL);
	return strtoull(at + strlen(key), NULL, 16);
}

static uint64_t bit(int signo)
{
	return UINT64_C(1) << (signo - 1);
}

static void check_signals(UNUSED void *arg)
{
	gmp_process_opts o = opts_for(ARGV("/bin/cat", "/proc/self/status"));
	char buf[4096];

	CHECK_EQ(output_of(o, buf, sizeof(buf)), 0);
	CHECK_EQ(mask_of(buf, "SigBlk:"), bit(SIGUSR2)); /* the mask of main, not of an M */
	CHECK_EQ(mask_of(buf, "SigIgn:") & (bit(SIGPIPE) | bit(SIGTERM) | bit(SIGUSR1)), 0);
	CHECK(mask_of(buf, "SigIgn:") & bit(SIGHUP)); /* the program ignores it, as nohup would */
	CHECK_EQ(mask_of(buf, "SigCgt:"), 0);
}

static void check_signals_on_all_kinds(UNUSED void *arg)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 1);
	struct ext_thread f;

	CHECK_EQ(gmp_signal_notify(c, SIGTERM), 0); /* Ms unblock and handle SIGTERM */
	CHECK_EQ(gmp_signal_notify(c, SIGUSR1), 0);
	check_signals(NULL);
	ext_thread_start(&f, check_signals, NULL);
	ext_thread_join(&f);
	gmp_block_enter();
	check_signals(NULL);
	gmp_block_leave();
	CHECK_EQ(gmp_signal_stop(c, SIGTERM), 0);
	CHECK_EQ(gmp_signal_stop(c, SIGUSR1), 0);
	gmp_chan_free(c);
	struct sigaction sa;

	CHECK_EQ(sigaction(SIGPIPE, NULL, &sa), 0);
	CHECK(sa.sa_handler == SIG_IGN); /* the parent's disposition is unchanged */
	CHECK_EQ(sigaction(SIGCHLD, NULL, &sa), 0);
	CHECK(sa.sa_handler == SIG_DFL);
}

TEST_PROCS(spawn_child_has_mask_and_dispositions_of_program)
{
	check_skip_on_valgrind("Valgrind blocks signals of its own");
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	CHECK_EQ(sigprocmask(SIG_SETMASK, &set, NULL), 0);
	CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	CHECK(signal(SIGHUP, SIG_IGN) != SIG_ERR);
	run_procs(procs, check_signals_on_all_kinds, NULL);
}

RT(spawn_child_ends_on_sigterm)
{
	gmp_process_opts o = opts_for(ARGV("/bin/sleep", "5"));
	gmp_process p;
	int status;

	CHECK_EQ(gmp_process_spawn(&p, &o), 0);
	CHECK_EQ(kill(p.pid, SIGTERM), 0);
	CHECK_EQ(gmp_waitpid_until(p.pid, &status, 0, gmp_deadline(PATIENCE)), p.pid);
	CHECK(WIFSIGNALED(status));
	CHECK_EQ(WTERMSIG(status), SIGTERM);
	gmp_process_close(&p);
}

RT(spawn_group_and_session_flags_set_ids)
{
	/* pid, group, session */
	gmp_process_opts o = opts_for(SH("read a b c d e f g </proc/self/stat; echo $a $e $f"));
	unsigned flags[] = { 0, GMP_PROCESS_GROUP, GMP_PROCESS_SESSION,
			     GMP_PROCESS_GROUP | GMP_PROCESS_SESSION };

	for (int i = 0; i < 4; i++) {
		int pid, group, session;
		char buf[64];

		o.flags = flags[i];
		CHECK_EQ(output_of(o, buf, sizeof(buf)), 0);
		CHECK_EQ(sscanf(buf, "%d %d %d", &pid, &group, &session), 3);
		CHECK_EQ(group, i ? pid : getpgrp());
		CHECK_EQ(session, i >= 2 ? pid : getsid(0));
	}
}

/* Each M waits with a slack of 1 ns, which the child must not inherit. */
static long slack_wanted;

static void check_slack(UNUSED void *arg)
{
	gmp_process_opts o = opts_for(ARGV("/bin/cat", "/proc/self/timerslack_ns"));
	char buf[64];

	CHECK_EQ(output_of(o, buf, sizeof(buf)), 0);
	CHECK_EQ(strtol(buf, NULL, 10), slack_wanted);
	CHECK_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), 1);
}

static void check_slacks(UNUSED void *arg)
{
	for (int i = 0; i < 8; i++)
		join(spawn(check_slack, NULL));
}

TEST_PROCS(spawn_child_has_timer_slack_of_program)
{
	slack_wanted = 77000;
	if (access("/proc/self/timerslack_ns", R_OK))
		check_skip("this kernel does not show the timer slack");
	CHECK_EQ(prctl(PR_SET_TIMERSLACK, slack_wanted, 0, 0, 0), 0);
	run_procs(procs, check_slacks, NULL);
	CHECK_EQ(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0), slack_wanted);
}

/* --- file descriptors --- */

static void check_descriptors(UNUSED void *arg)
{
	/* fds 0 to 2, and the fd that ls opens for the folder */
	gmp_process_opts o = opts_for(ARGV("/bin/ls", "/proc/self/fd"));
	int l = gmp_listen("tcp", "127.0.0.1:0"), p[2];

	CHECK(l >= 0);
	o.in.kind = GMP_PROCESS_NULL;
	o.err.kind = GMP_PROCESS_STDOUT;
	check_output(o, "0\n1\n2\n3\n");
	CHECK_EQ(pipe(p), 0); /* fds without close-on-exec are inherited */
	CHECK_EQ(fcntl(p[0], F_DUPFD, 200), 200);
	char buf[256];

	CHECK_EQ(output_of(o, buf, sizeof(buf)), 0);
	CHECK(strstr(buf, "\n200\n") != NULL);
	o.flags = GMP_PROCESS_CLOSE;
	o.out.kind = GMP_PROCESS_NULL;
	gmp_process unused;
	int err = gmp_process_spawn(&unused, &o);

	if (err != -ENOTSUP) {
		CHECK_EQ(err, 0);
		gmp_process_close(&unused);
		CHECK_EQ(exit_status(unused.pid), 0);
		check_output(o, "0\n1\n2\n3\n");
	}
	for (int i = 0; i < 2; i++)
		CHECK_EQ(close(p[i]), 0);
	CHECK_EQ(close(200), 0);
	CHECK_EQ(gmp_close(l), 0);
}

static void close_others(void)
{
	for (int fd = 3; fd < 256; fd++)
		close(fd);
}

TEST_PROCS(spawn_child_gets_no_descriptor_of_gmp)
{
	check_skip_on_valgrind("Valgrind has descriptors of its own");
	close_others(); /* the fds that the test inherited */
	run_procs(procs, check_descriptors, NULL);
}

/* Pipes get the numbers 0 to 2, and none of them may overwrite another in the child. */
static void check_without_standard_streams(UNUSED void *arg)
{
	gmp_process_opts o = opts_for(SH("cat; echo err >&2"));
	gmp_process p;
	char buf[16];

	for (int fd = 0; fd < 3; fd++)
		CHECK_EQ(close(fd), 0);
	for (int i = 0; i < 3; i++) {
		o.in.kind = o.out.kind = o.err.kind = GMP_PROCESS_PIPE;
		if (gmp_process_spawn(&p, &o) || p.in < 3 || p.out < 3 || p.err < 3)
			_exit(10);
		if (gmp_write_all(p.in, "in", 2) != 2 || gmp_close(p.in))
			_exit(11);
		p.in = -1;
		if (gmp_read_full(p.out, buf, sizeof(buf)) != 2 || memcmp(buf, "in", 2) != 0)
			_exit(12);
		if (gmp_read_full(p.err, buf, sizeof(buf)) != 4 || memcmp(buf, "err\n", 4) != 0)
			_exit(13);
		gmp_process_close(&p);
		if (gmp_waitpid(p.pid, NULL, 0) != p.pid)
			_exit(14);
	}
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			_exit(15);
	_exit(0);
}

static int procs_of_child;

static void run_without_standard_streams(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	c.procs = procs_of_child;
	gmp_run(check_without_standard_streams, NULL, &c);
	_exit(20);
}

TEST_PROCS(spawn_with_standard_streams_closed_works)
{
	procs_of_child = procs;
	CHECK_EQ(in_child(run_without_standard_streams), 0);
}

/* Swap the caller's standard fds. */
static void exchange_streams(void)
{
	int out = memfd_create("out", 0), err = memfd_create("err", 0);

	CHECK(out >= 0 && err >= 0);
	CHECK_EQ(dup2(out, 1), 1);
	CHECK_EQ(dup2(err, 2), 2);
	gmp_process_opts o = opts_for(SH("echo out; echo err >&2"));
	gmp_process p;

	o.out = (gmp_process_stream){ GMP_PROCESS_FD, 2 };
	o.err = (gmp_process_stream){ GMP_PROCESS_FD, 1 };
	CHECK_EQ(gmp_start(NULL), 0);
	CHECK_EQ(gmp_process_spawn(&p, &o), 0);
	CHECK_EQ(gmp_waitpid(p.pid, NULL, 0), p.pid);
	gmp_process_close(&p);
	CHECK_EQ(gmp_stop(), 0);
	char buf[8] = "";

	if (pread(out, buf, 8, 0) != 4 || memcmp(buf, "err\n", 4) != 0)
		_exit(1);
	if (pread(err, buf, 8, 0) != 4 || memcmp(buf, "out\n", 4) != 0)
		_exit(2);
}

TEST(spawn_exchanges_standard_descriptors)
{
	CHECK_EQ(in_child(exchange_streams), 0);
}

/* --- errors --- */

static void check_no_child(void)
{
	CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
	CHECK_EQ(errno, ECHILD);
}

static void check_error(const gmp_process_opts *o, int err)
{
	gmp_process p = { .pid = -7 };
	int fds = count_fds();

	CHECK_EQ(gmp_process_spawn(&p, o), err);
	CHECK_EQ(p.pid, -7);
	CHECK_EQ(count_fds(), fds);
	check_no_child();
}

static void check_errors(UNUSED void *arg)
{
	gmp_process_opts o = opts_for(ARGV("/nowhere/program"));

	o.in.kind = o.out.kind = o.err.kind = GMP_PROCESS_PIPE;
	check_error(&o, -ENOENT);
	o.argv = ARGV("gmp-test-no-such-program");
	o.flags = GMP_PROCESS_SEARCH;
	check_error(&o, -ENOENT);
	o.argv = ARGV("/etc/passwd");
	check_error(&o, -EACCES);
	o.argv = ARGV("/bin/true");
	o.cwd = "/nowhere";
	check_error(&o, -ENOENT);
	o.cwd = NULL;
	o.err = (gmp_process_stream){ GMP_PROCESS_FD, 1000 };
	check_error(&o, -EBADF);
	o.err.fd = dup(STDIN_FILENO);
	close(o.err.fd);
	o.out.kind = GMP_PROCESS_INHERIT; /* the pipe of stdin gets this number */
	check_error(&o, -EBADF);
	o.out.kind = GMP_PROCESS_PIPE;
	o.err.fd = -1;
	check_error(&o, -EINVAL);
	o.err.kind = 99;
	check_error(&o, -EINVAL);
	o.err.kind = 0;
	o.out.kind = GMP_PROCESS_STDOUT;
	check_error(&o, -EINVAL);
	o.out.kind = 0;
	o.flags = 1u << 20;
	check_error(&o, -EINVAL);
	o.flags = 0;
	o.argv = ARGV(NULL);
	check_error(&o, -EINVAL);
	o.argv = NULL;
	check_error(&o, -EINVAL);
	o.size = 0;
	check_error(&o, -EINVAL);
	check_error(NULL, -EINVAL);
	o = opts_for(ARGV("/bin/true"));
	CHECK_EQ(gmp_process_spawn(NULL, &o), -EINVAL);
	struct {
		gmp_process_opts o;
		uint64_t later;
	} newer = { o, 0 };

	newer.o.size = sizeof(newer);
	gmp_process p;

	CHECK_EQ(gmp_process_spawn(&p, &newer.o), 0);
	gmp_process_close(&p);
	CHECK_EQ(exit_status(p.pid), 0);
	newer.later = 1;
	check_error(&newer.o, -E2BIG);
	gmp_process_close(NULL);
}

RT(spawn_failure_is_reported_and_leaves_nothing)
{
	check_skip_on_valgrind(
		"Valgrind makes a vfork a fork, and the error of the exec stays in it");
	struct ext_thread f;

	run_some(NULL);
	check_errors(NULL);
	ext_thread_start(&f, check_errors, NULL);
	ext_thread_join(&f);
	CHECK_EQ(stats().descriptors, 0);
}

RT(spawn_without_spare_fds_returns_emfile_without_child)
{
	gmp_process_opts o = opts_for(SH("exit 5"));
	int fds, started = 0;
	struct rlimit r, few;
	gmp_process p;

	run_some(NULL);
	fds = count_fds();
	o.in.kind = o.out.kind = o.err.kind = GMP_PROCESS_PIPE;
	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &r), 0);
	bool pidfds = have_pidfds();

	for (rlim_t n = 3; n < 40; n++) {
		few = (struct rlimit){ n, r.rlim_max };
		CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
		int err = gmp_process_spawn(&p, &o);

		CHECK(err == 0 || err == -EMFILE);
		CHECK(err == 0 || !started); /* more descriptors do not make it worse */
		if (err == 0) {
			started++;
			CHECK(p.pidfd >= 0 || !pidfds);
			CHECK_EQ(gmp_waitpid(p.pid, NULL, 0), p.pid);
			gmp_process_close(&p);
		} else {
			check_no_child();
		}
		CHECK_EQ(setrlimit(RLIMIT_NOFILE, &r), 0);
		CHECK_EQ(count_fds(), fds);
	}
	CHECK(started);
}

TEST(spawn_without_runtime_returns_esrch)
{
	gmp_process_opts o = opts_for(ARGV("/bin/true"));
	gmp_process p;

	CHECK_EQ(gmp_process_spawn(&p, &o), -ESRCH);
}

/* --- concurrency and shutdown --- */

static atomic_int beats, stop;

static void beat(UNUSED void *arg)
{
	while (!atomic_load(&stop)) {
		atomic_fetch_add(&beats, 1);
		gmp_sleep(100 * US);
	}
}

static void spawn_and_wait(UNUSED void *arg)
{
	for (int i = 0; i < 5; i++)
		check_output(opts_for(SH("echo x")), "x\n");
}

RT(spawn_concurrent_from_green_and_external_threads_works)
{
	atomic_store(&stop, 0);
	gmp_g *g = spawn(beat, NULL);

	run_crowd(spawn_and_wait, 2, 8);
	atomic_store(&stop, 1);
	join(g);
	CHECK(atomic_load(&beats) > 0);
	CHECK_EQ(stats().descriptors, 0);
	check_no_child();
}

static void spawn_until_killed(UNUSED void *arg)
{
	gmp_process_opts o = opts_for(ARGV("/bin/true"));

	o.in.kind = o.out.kind = GMP_PROCESS_PIPE;
	for (;;) {
		gmp_process p;

		if (gmp_process_spawn(&p, &o))
			return;
		gmp_process_close(&p);
		atomic_fetch_add(&beats, 1);
	}
}

static void leave_spawning(void *n)
{
	for (int i = 0; i < 4; i++)
		CHECK_EQ(gmp_go(spawn_until_killed, NULL), 0);
	gmp_sleep((intptr_t)n * 300 * US);
}

/* A green thread that is killed during the call or just after it leaks no fd. */
TEST_PROCS(spawn_shutdown_during_call_leaves_no_descriptor)
{
	int fds = count_fds();

	for (intptr_t i = 0; i < 10; i++) {
		gmp_config c = GMP_CONFIG_INIT;

		c.procs = procs;
		CHECK_EQ(gmp_run(leave_spawning, (void *)i, &c), 0);
		CHECK_EQ(count_fds(), fds);
	}
	while (waitpid(-1, NULL, 0) > 0)
		;
}

/* An M may have a slice of 0.1 or 10 ms for the kernel's scheduler (Linux 6.12). */
RT(process_has_the_slice_of_a_process_without_runtime)
{
	char buf[200] = "";
	double slice;

	output_of(opts_for(SH("grep se.slice /proc/self/sched")), buf, sizeof(buf));
	if (sscanf(buf, "se.slice : %lf", &slice) != 1)
		check_skip("the kernel shows no slices");
	CHECK(slice > 200 * 1000);
}
