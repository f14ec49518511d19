/* SPDX-License-Identifier: MIT */
/* Tests of traces: which events a file has, and how traces begin and end.  floors 0..6 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/emit.h"
#include "base/os.h"
#include "g.h"
#include "observe/trace/tracing.h"
#include "observe/tracing.h"
#include "rt.h"

/* --- a reader of the format, for these tests --- */

enum { FOUND_MOST = 200000 };

struct found {
	uint32_t thread;
	unsigned type;
	uint64_t ticks;
	uint64_t small, a, b, c;
	size_t at; /* in the file */
	char text[EVENT_TEXT_MOST + 1];
	size_t n;
};

static struct found *found;
static size_t nfound;
static char path[64];

static uint64_t varint(const unsigned char **at, const unsigned char *end)
{
	uint64_t v = 0;

	for (unsigned shift = 0;; shift += 7) {
		CHECK(*at < end && shift < 64);
		v |= (uint64_t)(**at & 0x7f) << shift;
		if (!(*(*at)++ & 0x80))
			return v;
	}
}

static uint64_t fixed(const unsigned char *at, unsigned bytes)
{
	uint64_t v = 0;

	while (bytes-- > 0)
		v = v << 8 | at[bytes];
	return v;
}

static void read_event(const unsigned char **at, const unsigned char *end, uint32_t thread,
		       uint64_t *ticks)
{
	static const struct {
		bool small, a, b, c, text;
	} has[EVENTS] = {
#define EVENT(name, word, small, a, b, c, has_text, help)                                          \
	[EVENT_##name] = { sizeof(small) > 1, sizeof(a) > 1, sizeof(b) > 1, sizeof(c) > 1,         \
			   has_text },
#include "base/event.def"
#undef EVENT
	};
	CHECK(nfound < FOUND_MOST);
	struct found *f = &found[nfound++];

	memset(f, 0, sizeof(*f));
	f->thread = thread;
	f->type = *(*at)++;
	CHECK(f->type > EVENT_NONE && f->type < EVENTS);
	uint64_t since = varint(at, end);

	*ticks += since >> 1 ^ -(since & 1);
	f->ticks = *ticks;
	f->at = nfound;
	f->a = has[f->type].a ? varint(at, end) : 0;
	f->b = has[f->type].b ? varint(at, end) : 0;
	f->c = has[f->type].c ? varint(at, end) : 0;
	f->small = has[f->type].small ? varint(at, end) : 0;
	if (has[f->type].text) {
		f->n = varint(at, end);
		CHECK(f->n <= EVENT_TEXT_MOST && *at + f->n <= end);
		memcpy(f->text, *at, f->n);
		*at += f->n;
	}
}

static int by_time(const void *a, const void *b)
{
	const struct found *f = a, *g = b;

	if (f->ticks != g->ticks)
		return f->ticks < g->ticks ? -1 : 1;
	return f->at < g->at ? -1 : 1;
}

/* Reads the file `path`, and sorts its events by time. */
static void read_trace(void)
{
	int fd = open(path, O_RDONLY);
	struct stat st;

	CHECK(fd >= 0 && fstat(fd, &st) == 0 && st.st_size > 48);
	unsigned char *bytes = malloc((size_t)st.st_size);
	const unsigned char *at = bytes + 48, *end = bytes + st.st_size;

	if (!found)
		found = malloc(FOUND_MOST * sizeof(*found));
	CHECK(bytes && found && read(fd, bytes, (size_t)st.st_size) == st.st_size);
	close(fd);
	CHECK(memcmp(bytes, "gmptrace", 8) == 0 && fixed(bytes + 8, 4) == 1);
	for (nfound = 0; at < end;) {
		uint32_t n = (uint32_t)fixed(at, 4), thread = (uint32_t)fixed(at + 4, 4);
		const unsigned char *to = at + 16 + n;

		CHECK(to <= end);
		uint64_t ticks = fixed(at + 8, 8);

		for (at += 16; at < to;)
			read_event(&at, to, thread, &ticks);
	}
	free(bytes);
	CHECK_EQ(found[nfound - 1].type, EVENT_STOP);
	CHECK_EQ(found[nfound - 1].a, nfound - 1);
	qsort(found, nfound, sizeof(*found), by_time);
}

/* The first event from `from` on of this type with this a; NULL: there is none. */
static const struct found *find(const struct found *from, unsigned type, uint64_t a)
{
	for (const struct found *f = from ? from : found; f < found + nfound; f++)
		if (f->type == type && f->a == a)
			return f;
	return NULL;
}

static void make_path(void)
{
	strcpy(path, "/tmp/gmp-tracing-XXXXXX");
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	close(fd);
}

static void traced(int procs, gmp_fn fn)
{
	make_path();
	run_procs(procs, fn, NULL);
	read_trace();
	unlink(path);
}

/* --- events --- */

static uint64_t main_id, child_id;

static void nothing(void *arg)
{
	(void)arg;
}

static void spawn_and_join(void *arg)
{
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_trace_start(path), 0);
	main_id = gmp_id(gmp_self());
	CHECK_EQ(gmp_spawn(&g, nothing, NULL, NULL), 0);
	child_id = gmp_id(g);
	CHECK_EQ(gmp_join(g), 0);
	CHECK_EQ(gmp_trace_stop(), 0);
}

TEST(trace_spawn_and_join_has_each_step)
{
	traced(1, spawn_and_join);
	const struct found *f = find(NULL, EVENT_SPAWN, child_id);

	CHECK(f && f->b == main_id && f->c == (uint64_t)(uintptr_t)nothing);
	CHECK_EQ(f->small, QUEUE_RUNNEXT);
	CHECK((f = find(f, EVENT_PARK, main_id)) && f->small == WAIT_JOIN && f->c == child_id);
	CHECK((f = find(f, EVENT_RUN, child_id)) && f->small == 1);
	CHECK((f = find(f, EVENT_EXIT, child_id)));
	CHECK((f = find(f, EVENT_READY, main_id)) && f->b == child_id);
	CHECK_EQ(f->small >> 4, GMP_LATENCY_WAKE);
	CHECK((f = find(f, EVENT_RUN, main_id)) && f->small == 0);
}

static gmp_sem sem;

static void wait_named(void *arg)
{
	(void)arg;
	gmp_sem_acquire(&sem);
}

static void start_late(void *arg)
{
	gmp_attr attr = GMP_ATTR_INIT;
	gmp_g *g;

	(void)arg;
	attr.name = "waits already";
	CHECK_EQ(gmp_spawn(&g, wait_named, NULL, &attr), 0);
	gmp_yield();
	child_id = gmp_id(g);
	while (ld_rlx(&((struct g *)g)->status) != G_WAITING)
		gmp_yield();
	CHECK_EQ(gmp_trace_start(path), 0);
	CHECK_EQ(gmp_trace_stop(), 0);
	CHECK_EQ(gmp_sem_release(&sem, 1), 0);
	CHECK_EQ(gmp_join(g), 0);
}

TEST(trace_start_lists_green_threads_that_exist)
{
	traced(1, start_late);
	const struct found *f = find(NULL, EVENT_GREEN, child_id);

	CHECK(f && f->b == (uint64_t)(uintptr_t)wait_named);
	CHECK_STR(f->text, "waits already");
	CHECK(f->small == G_WAITING && f->c == WAIT_SEM);
}

static void *release_from_outside(void *arg)
{
	(void)arg;
	gmp_trace_log("outside", "an OS thread");
	CHECK_EQ(gmp_sem_release(&sem, 1), 0);
	return NULL;
}

static void woken_from_outside(void *arg)
{
	pthread_t t;

	(void)arg;
	CHECK_EQ(gmp_trace_start(path), 0);
	main_id = gmp_id(gmp_self());
	CHECK_EQ(pthread_create(&t, NULL, release_from_outside, NULL), 0);
	gmp_sem_acquire(&sem);
	gmp_block_enter();
	pthread_join(t, NULL);
	gmp_block_leave();
	CHECK_EQ(gmp_trace_stop(), 0);
}

TEST(trace_wakeup_by_an_os_thread_is_in_its_own_ring)
{
	traced(1, woken_from_outside);
	const struct found *log = NULL, *thread;

	for (size_t i = 0; i < nfound && !log; i++)
		if (found[i].type == EVENT_LOG)
			log = &found[i];
	CHECK(log && log->n == strlen("outside") + 1 + strlen("an OS thread"));
	CHECK_STR(log->text + strlen("outside") + 1, "an OS thread");
	for (thread = found; thread->type != EVENT_THREAD || thread->thread != log->thread;)
		thread++;
	CHECK_EQ(thread->small, THREAD_EXTERNAL);
	CHECK_EQ(thread->b, 0);
}

static void texts(void *arg)
{
	char name[300];

	(void)arg;
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	gmp_trace_begin("before the trace");
	CHECK_EQ(gmp_trace_start(path), 0);
	main_id = gmp_id(gmp_self());
	gmp_trace_begin(name);
	gmp_trace_begin(NULL);
	gmp_trace_log(NULL, name);
	gmp_trace_end();
	gmp_trace_end();
	CHECK_EQ(gmp_trace_stop(), 0);
	gmp_trace_log("after", "the trace");
}

TEST(trace_texts_are_cut_and_only_recorded_during_a_trace)
{
	traced(1, texts);
	const struct found *f = find(NULL, EVENT_BEGIN, main_id);

	CHECK(f && f->n == EVENT_TEXT_MOST && f->text[EVENT_TEXT_MOST - 1] == 'x');
	CHECK((f = find(f + 1, EVENT_BEGIN, main_id)) && f->n == 0);
	CHECK((f = find(f, EVENT_LOG, main_id)) && f->n == EVENT_TEXT_MOST - 1);
	CHECK(!find(f + 1, EVENT_LOG, main_id) && !find(f, EVENT_BEGIN, main_id));
	CHECK((f = find(f, EVENT_END, main_id)) && find(f + 1, EVENT_END, main_id));
}

static void left_on(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_trace_start(path), 0);
	main_id = gmp_id(gmp_self());
}

TEST(trace_that_is_on_at_the_end_of_the_run_is_complete)
{
	traced(2, left_on);
	CHECK(find(NULL, EVENT_EXIT, main_id));
}

/* --- begin and end --- */

static void errors(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_trace_stop(), -EINVAL);
	CHECK_EQ(gmp_trace_start(NULL), -EINVAL);
	CHECK_EQ(gmp_trace_start(""), -EINVAL);
	CHECK_EQ(gmp_trace_start("/nonexistent/trace"), -ENOENT);
	CHECK_EQ(gmp_trace_start(path), 0);
	CHECK_EQ(gmp_trace_start(path), -EBUSY);
	CHECK_EQ(gmp_trace_stop(), 0);
	CHECK_EQ(gmp_trace_stop(), -EINVAL);
	CHECK_EQ(gmp_trace_start("/dev/full"), 0);
	gmp_sleep(20 * GMP_MS);
	gmp_yield();
	CHECK_EQ(gmp_trace_stop(), -ENOSPC);
}

static void refused_in_thread_mode(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_trace_start(path), -ENOTSUP);
}

TEST(trace_errors_are_reported)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	make_path();
	CHECK_EQ(gmp_trace_start(path), -ESRCH);
	CHECK_EQ(gmp_trace_stop(), -ESRCH);
	run_procs(2, errors, NULL);
	cfg.sched = GMP_SCHED_THREAD;
	CHECK_EQ(gmp_run(refused_in_thread_mode, NULL, &cfg), 0);
	unlink(path);
}

static int lowest_free_fd(void)
{
	int fd = dup(STDERR_FILENO);

	close(fd);
	return fd;
}

static void many_traces(void *arg)
{
	uint64_t last = 0;
	gmp_g *g;

	(void)arg;
	int threads = os_thread_count(), fd = lowest_free_fd();

	for (int i = 0; i < 50; i++) {
		CHECK_EQ(gmp_trace_start(path), 0);
		CHECK_EQ(gmp_spawn(&g, nothing, NULL, NULL), 0);
		uint64_t id = gmp_id(g);

		CHECK_EQ(gmp_join(g), 0);
		CHECK_EQ(gmp_trace_stop(), 0);
		read_trace();
		CHECK(find(NULL, EVENT_EXIT, id));
		CHECK(!last || !find(NULL, EVENT_EXIT, last));
		last = id;
	}
	CHECK_EQ(lowest_free_fd(), fd);
	CHECK(os_thread_count() <= threads + 3); /* Ms that were started */
}

TEST(trace_restarted_has_no_event_of_the_one_before)
{
	make_path();
	run_procs(1, many_traces, NULL);
	unlink(path);
}

TEST(trace_of_each_run_begins_again)
{
	make_path();
	setenv("GMP_TRACE", path, 1);
	for (int i = 0; i < 20; i++) {
		run_procs(2, nothing, NULL);
		read_trace();
		CHECK(find(NULL, EVENT_SPAWN, 1) && find(NULL, EVENT_EXIT, 1));
	}
	unsetenv("GMP_TRACE");
	CHECK_EQ(recording(), 0);
	unlink(path);
}

/* Run the runtime in a child of fork; true: it worked. */
static bool child_runs(void)
{
#if defined(SAN_ADDRESS) || defined(SAN_THREAD)
	return true; /* sanitizers refuse threads in a forked child */
#else
	return gmp_run(nothing, NULL, NULL) == 0;
#endif
}

static void fork_while_traced(void *arg)
{
	int status;

	(void)arg;
	CHECK_EQ(gmp_trace_start(path), 0);
	gmp_block_enter();
	pid_t pid = fork();

	if (pid == 0)
		_exit(recording() == 0 && gmp_trace_stop() == -ESRCH && child_runs() ? 0 : 1);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	gmp_block_leave();
	CHECK_EQ(status, 0);
	main_id = gmp_id(gmp_self());
	CHECK_EQ(gmp_trace_stop(), 0);
}

TEST(trace_in_a_fork_child_is_off_and_the_file_is_the_parents)
{
	traced(2, fork_while_traced);
	CHECK(find(NULL, EVENT_BLOCK, main_id) && find(NULL, EVENT_UNBLOCK, main_id));
}

/* Run the runtime in a child of fork while GMP_TRACE records; the child stores nothing. */
static void fork_and_run(void *arg)
{
	int status;

	(void)arg;
	gmp_block_enter();
	pid_t pid = fork();

	if (pid == 0)
		_exit(child_runs() ? 0 : 1);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	gmp_block_leave();
	CHECK_EQ(status, 0);
	child_id = (uint64_t)pid;
	main_id = gmp_id(gmp_self());
}

static void skip_without_threads_in_children(void)
{
#if defined(SAN_ADDRESS) || defined(SAN_THREAD)
	check_skip("sanitizers refuse threads in a forked child");
#endif
}

TEST(trace_of_the_environment_is_that_of_the_first_process)
{
	make_path();
	setenv("GMP_TRACE", path, 1);
	run_procs(2, fork_and_run, NULL);
	unsetenv("GMP_TRACE");
	read_trace();
	CHECK(find(NULL, EVENT_BLOCK, main_id) && find(NULL, EVENT_EXIT, main_id));
	unlink(path);
}

TEST(trace_path_with_the_process_has_a_file_of_each)
{
	char pattern[80];
	size_t n;

	skip_without_threads_in_children();
	make_path();
	unlink(path);
	n = strlen(path);
	snprintf(pattern, sizeof(pattern), "%s.%%p", path);
	setenv("GMP_TRACE", pattern, 1);
	run_procs(2, fork_and_run, NULL);
	unsetenv("GMP_TRACE");
	for (int i = 0; i < 2; i++) {
		snprintf(path + n, sizeof(path) - n, ".%d", i ? (int)child_id : (int)getpid());
		read_trace();
		CHECK(find(NULL, EVENT_EXIT, 1));
		CHECK_EQ(unlink(path), 0);
	}
}

static void start_refused(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_trace_start(path), -EBUSY);
}

/* A lock belongs to an opening of a file, so that of the test stands for another process. */
TEST(trace_into_a_file_that_another_process_records_is_refused)
{
	static const char contents[] = "the trace of another process";
	char now[sizeof(contents)];

	make_path();
	int fd = open(path, O_RDWR);

	CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0);
	CHECK_EQ(write(fd, contents, sizeof(contents)), (ssize_t)sizeof(contents));
	run_procs(1, start_refused, NULL);
	setenv("GMP_TRACE", path, 1);
	run_procs(1, nothing, NULL); /* it runs, without a trace */
	CHECK_EQ(pread(fd, now, sizeof(now), 0), (ssize_t)sizeof(now));
	CHECK_STR(now, contents);
	close(fd);
	run_procs(1, nothing, NULL);
	unsetenv("GMP_TRACE");
	read_trace();
	CHECK(find(NULL, EVENT_EXIT, 1));
	unlink(path);
}

/* A child that keeps a copy of every file descriptor until `gate` has no writer.  By the system
 * call: the handlers of fork(3) would close the copy of the trace. */
static pid_t start_holder(const int gate[2])
{
	pid_t id = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	char byte;

	if (id == 0) {
		close(gate[1]);
		_exit(read(gate[0], &byte, 1) == 0 ? 0 : 1);
	}
	return id;
}

static void start_beside_holder(void *arg)
{
	int gate[2], status;

	(void)arg;
	CHECK_EQ(pipe(gate), 0);
	CHECK_EQ(gmp_trace_start(path), 0);
	pid_t id = start_holder(gate);

	CHECK(id > 0);
	CHECK_EQ(gmp_trace_stop(), 0);
	CHECK_EQ(gmp_trace_start(path), 0);
	CHECK_EQ(gmp_trace_stop(), 0);
	close(gate[1]);
	close(gate[0]);
	CHECK_EQ(waitpid(id, &status, 0), id);
	CHECK_EQ(status, 0);
}

TEST(trace_starts_again_while_a_child_holds_a_copy_of_its_descriptor)
{
	make_path();
	run_procs(2, start_beside_holder, NULL);
	unlink(path);
}

/* --- files that are not read --- */

static void into_fifo(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_trace_start(path), -ENXIO);
	int fd = open(path, O_RDONLY | O_NONBLOCK);

	CHECK(fd >= 0);
	CHECK_EQ(gmp_trace_start(path), 0);
	for (int i = 0; i < 50000; i++)
		gmp_trace_begin("a region that fills the FIFO");
	CHECK_EQ(gmp_trace_stop(), -EAGAIN);
	close(fd);
	fd = open(path, O_RDONLY | O_NONBLOCK);
	CHECK_EQ(gmp_trace_start(path), 0);
	for (int i = 0; i < 50000; i++)
		gmp_trace_begin("a region that fills the FIFO");
	/* the run ends the trace, and the FIFO is still full */
}

TEST(trace_into_a_fifo_does_not_wait_for_its_reader)
{
	make_path();
	unlink(path);
	CHECK_EQ(mkfifo(path, 0600), 0);
	run_procs(2, into_fifo, NULL);
	CHECK_EQ(recording(), 0);
	unlink(path);
}

/* --- one trace and another --- */

static void second_trace(void *arg)
{
	struct stat st;

	(void)arg;
	CHECK_EQ(gmp_trace_stop(), -EINVAL); /* GMP_TRACE: the run ends it */
	CHECK_EQ(gmp_trace_start(path), -EBUSY);
	CHECK(stat(path, &st) == 0 && st.st_size > 0); /* it was not truncated */
	CHECK_EQ(gmp_trace_stop(), -EINVAL);
}

TEST(trace_refused_leaves_the_trace_that_is_on_and_its_file)
{
	make_path();
	setenv("GMP_TRACE", path, 1);
	run_procs(1, second_trace, NULL);
	unsetenv("GMP_TRACE");
	read_trace();
	CHECK(find(NULL, EVENT_EXIT, 1));
	unlink(path);
}

static int pipe_fds[2];

static void trace_into_a_pipe_that_is_not_read(void *arg)
{
	(void)arg;
	CHECK_EQ(os_pipe(pipe_fds), 0);
	CHECK_EQ(tracing_start_pipe(pipe_fds[1]), 0);
	for (int i = 0; i < 200000; i++)
		gmp_trace_begin("a region that fills the pipe");
}

TEST(trace_into_a_full_pipe_does_not_hold_up_the_end_of_the_run)
{
	run_procs(2, trace_into_a_pipe_that_is_not_read, NULL);
	close(pipe_fds[0]);
	CHECK_EQ(recording(), 0);
}
