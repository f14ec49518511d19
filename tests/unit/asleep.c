/* SPDX-License-Identifier: MIT */
/*
 * Tests that trace_asleep finds the calls of a thread that sleeps in the kernel, and nothing of a
 * thread that runs or sleeps on another stack.
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "base/os.h"
#include "machine/asleep.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* A sanitizer's read() has a frame pointer, or saves rbp. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { STACK = 1024 * 1024 };

static struct {
	pthread_t thread;
	char *stack, *top; /* above top is the thread's control block: much with a sanitizer */
	int ends[2];
	atomic_int tid, over;
	volatile long got;
} other;

static void note_thread(char *frame)
{
	other.top = frame + 256;
	atomic_store(&other.tid, os_thread_id());
}

static noinline void sleep_inside(void)
{
	char c;

	other.got += read(other.ends[0], &c, 1);
}

static noinline void sleep_outside(void)
{
	sleep_inside();
	other.got++;
}

static void *sleeper(void *arg)
{
	note_thread(__builtin_frame_address(0));
	sleep_outside();
	other.got++;
	return arg;
}

/* The frame is found by rbp, which read() neither changes nor saves. */
static noinline void sleep_with_frame_pointer(size_t n)
{
	volatile char *on_stack = __builtin_alloca(n);

	on_stack[0] = 1;
	sleep_inside();
	other.got += on_stack[0];
}

static noinline void sleep_with_two_frame_pointers(size_t n)
{
	volatile char *on_stack = __builtin_alloca(n);

	on_stack[0] = 1;
	sleep_with_frame_pointer(n);
	other.got += on_stack[0];
}

static void *sleeper_with_frame_pointer(void *arg)
{
	note_thread(__builtin_frame_address(0));
	sleep_with_two_frame_pointers((size_t)arg);
	other.got++;
	return arg;
}

static noinline void sleep_deep(void)
{
	struct timespec t = { .tv_nsec = 50000 };

	nanosleep(&t, NULL);
	other.got++;
}

static void *computes(void *arg)
{
	note_thread(__builtin_frame_address(0));
	while (!atomic_load(&other.over))
		;
	return arg;
}

static void begin(void *(*fn)(void *), size_t arg)
{
	pthread_attr_t a;

	check_skip_on_valgrind("Valgrind sleeps on a stack of its own");
	other.stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(other.stack != MAP_FAILED);
	CHECK_EQ(pipe(other.ends), 0);
	CHECK_EQ(pthread_attr_init(&a), 0);
	CHECK_EQ(pthread_attr_setstack(&a, other.stack, STACK), 0);
	CHECK_EQ(pthread_create(&other.thread, &a, fn, (void *)arg), 0);
	while (!atomic_load(&other.tid))
		;
}

static void end(void)
{
	atomic_store(&other.over, 1);
	CHECK_EQ(write(other.ends[1], "x", 1), 1);
	CHECK_EQ(pthread_join(other.thread, NULL), 0);
}

/* The index of the frame of fn; -1: none. */
static int frame_of(const struct trace *t, void *fn)
{
	for (int i = 0; i < t->n; i++)
		if (trace_function(t->pc[i]) == (uintptr_t)fn)
			return i;
	return -1;
}

static int trace_other(struct trace *t, void *entry)
{
	struct os_call call;

	while (!os_thread_call(other.tid, &call) || strcmp(call.name, "read()") != 0)
		if (os_thread_state(other.tid) == 0)
			check_skip("/proc/self/task is not readable");
	return trace_asleep(t, other.tid, other.stack, other.top, (uintptr_t)entry);
}

TEST(asleep_calls_are_found_down_to_entry)
{
	struct trace t;

	begin(sleeper, 0);
	int certain = trace_other(&t, sleeper);

	CHECK(certain > 0);
	CHECK(frame_of(&t, sleep_inside) > 0);
	CHECK(frame_of(&t, sleep_outside) > frame_of(&t, sleep_inside));
	CHECK(frame_of(&t, sleeper) > frame_of(&t, sleep_outside));
	if (!SANITIZED)
		CHECK(certain > frame_of(&t, sleep_inside));
	end();
}

TEST(asleep_calls_behind_frame_pointer_are_guessed)
{
	struct trace t;

	begin(sleeper_with_frame_pointer, 100);
	int certain = trace_other(&t, sleeper_with_frame_pointer), at;

	at = frame_of(&t, sleep_with_frame_pointer);
	CHECK(at > frame_of(&t, sleep_inside));
	if (!SANITIZED)
		CHECK(certain <= at + 1);
	CHECK(certain > 0);
	CHECK_EQ(frame_of(&t, sleep_with_two_frame_pointers), at + 1);
	CHECK_EQ(frame_of(&t, sleeper_with_frame_pointer), at + 2);
	end();
}

TEST(asleep_on_another_stack_has_no_frames)
{
	struct trace t;

	begin(sleeper, 0);
	trace_other(&t, sleeper);
	CHECK_EQ(trace_asleep(&t, other.tid, (char *)&t, (char *)(&t + 1), 0), 0);
	CHECK_EQ(t.n, 0);
	end();
}

TEST(asleep_trace_of_running_thread_fails)
{
	struct trace t;

	begin(computes, 0);
	CHECK_EQ(trace_asleep(&t, other.tid, other.stack, other.top, 0), -1);
	CHECK_EQ(t.n, 0);
	end();
}

/* It wakes and sleeps again all the time. */
static void *sleeps_often(void *arg)
{
	struct timespec t = { .tv_nsec = 50000 };

	note_thread(__builtin_frame_address(0));
	while (!atomic_load(&other.over)) {
		nanosleep(&t, NULL);
		sleep_deep();
	}
	return arg;
}

TEST(asleep_trace_of_thread_that_wakes_is_of_one_moment)
{
	struct trace t;
	int whole = 0;

	begin(sleeps_often, 0);
	for (int i = 0; i < 10000 && whole < check_scaled(1000); i++) {
		int certain = trace_asleep(&t, other.tid, other.stack, other.top,
					   (uintptr_t)sleeps_often);

		if (certain <= 0)
			continue;
		CHECK(frame_of(&t, sleeps_often) > 0);
		whole++;
	}
	CHECK(whole > 0);
	end();
}
