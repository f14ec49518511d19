/* SPDX-License-Identifier: MIT */
/*
 * Tests what os_task reports of the threads of this process: the system call, its fd, the state and
 * the times.
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/os.h"

static int ends[2], tid;

static void *reader(void *arg)
{
	char c;

	st_rel(&tid, os_thread_id());
	while (read(ends[0], &c, 1) == 1)
		;
	return arg;
}

static pthread_t start_reader(void)
{
	pthread_t t;

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(pthread_create(&t, NULL, reader, NULL), 0);
	while (!ld_acq(&tid) || os_thread_state(tid) != 'S')
		os_nap(100000);
	return t;
}

static void end_reader(pthread_t t)
{
	close(ends[1]);
	pthread_join(t, NULL);
	close(ends[0]);
}

TEST(os_thread_call_asleep_in_read_names_call_and_fd)
{
	pthread_t t = start_reader();
	struct os_call call;
	char name[80];

	if (!os_thread_call(tid, &call))
		check_skip("/proc/self/task/TID/syscall cannot be read here");
	CHECK_STR(call.name, "read()");
	CHECK_EQ(call.kind, OS_CALL_STREAM);
	CHECK_EQ(call.fd, ends[0]);
	CHECK(os_fd_name(call.fd, name, sizeof(name)));
	CHECK(strncmp(name, "pipe:[", 6) == 0);
	end_reader(t);
}

TEST(os_thread_sleep_asleep_in_read_gives_number_argument_and_place)
{
	pthread_t t = start_reader();
	struct os_sleep s = { 0 };
	uintptr_t sp, pc;

	if (!os_thread_entered_at(tid, &sp, &pc))
		check_skip("/proc/self/task/TID/syscall cannot be read here");
	CHECK(os_thread_sleep(tid, &s));
	CHECK_EQ(s.nr, SYS_read);
	CHECK_EQ(s.arg[0], (uintptr_t)ends[0]);
	CHECK_EQ(s.arg[2], 1);
	CHECK_EQ(s.sleeps, os_thread_sleeps(tid));
	CHECK(s.once);
	CHECK_EQ(s.sp, sp);
	CHECK_EQ(s.pc, pc);
	CHECK(!os_thread_sleep(1 << 24, &s)); /* no such thread */
	end_reader(t);
}

TEST(os_thread_sleeps_counts_each_sleep)
{
	pthread_t t = start_reader();
	uint64_t before = os_thread_sleeps(tid);

	if (!before)
		check_skip("/proc/self/task/TID/status cannot be read here");
	CHECK_EQ(os_thread_sleeps(tid), before); /* still the same */
	CHECK_EQ(write(ends[1], "x", 1), 1);
	while (os_thread_sleeps(tid) == before)
		os_nap(100000);
	CHECK_EQ(os_thread_sleeps(1 << 24), 0); /* no such thread */
	end_reader(t);
}

TEST(os_thread_entered_at_asleep_is_on_its_stack)
{
	pthread_t t = start_reader();
	uintptr_t sp, pc;
	pthread_attr_t a;
	void *lo;
	size_t n;

	check_skip_on_valgrind("Valgrind sleeps on a stack of its own");
	if (!os_thread_entered_at(tid, &sp, &pc))
		check_skip("/proc/self/task/TID/syscall cannot be read here");
	CHECK_EQ(pthread_getattr_np(t, &a), 0);
	CHECK_EQ(pthread_attr_getstack(&a, &lo, &n), 0);
	pthread_attr_destroy(&a);
	CHECK(sp - (uintptr_t)lo < n);
	CHECK(pc != 0);
	CHECK(!os_thread_entered_at(1 << 24, &sp, &pc));
	end_reader(t);
}

TEST(os_thread_call_running_thread_is_in_no_call)
{
	struct os_call call;

	CHECK(!os_thread_call(os_thread_id(), &call) || call.kind != OS_CALL_STREAM || call.fd > 2);
	CHECK(!os_thread_call(1 << 24, &call));
	CHECK_EQ(os_thread_state(os_thread_id()), 'R');
}

TEST(os_thread_cpu_time_grows_only_while_computing)
{
	pthread_t t = start_reader();
	int64_t asleep = os_thread_cpu_time(tid), own = os_thread_cpu_time(os_thread_id());
	int64_t end = os_now() + 20000000;

	while (os_now() < end)
		;
	CHECK(os_thread_cpu_time(os_thread_id()) > own);
	CHECK(os_thread_cpu_time(tid) - asleep < 10000000);
	CHECK(os_thread_delay(os_thread_id()) >= -1);
	CHECK_EQ(os_thread_cpu_time(1 << 24), 0);
	CHECK_EQ(os_thread_delay(1 << 24), -1);
	end_reader(t);
}

TEST(os_thread_slices_grow_on_wakeup)
{
	pthread_t t = start_reader();
	uint64_t asleep = os_thread_slices(tid);

	CHECK_EQ(os_thread_slices(1 << 24), 0);
	if (asleep > 0) { /* the kernel counts slices */
		CHECK_EQ(write(ends[1], "x", 1), 1);
		while (os_thread_slices(tid) == asleep)
			os_nap(100000);
	}
	end_reader(t);
}

TEST(os_fd_name_closed_fd_returns_false)
{
	char name[8];

	CHECK(!os_fd_name(999, name, sizeof(name)));
	CHECK_STR(name, "");
}
