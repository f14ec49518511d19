/* SPDX-License-Identifier: MIT */
/* Tests of exceptions in green threads: each has its own, wherever it goes on after a wait. */
#include <atomic>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include <unistd.h>

#include "rt.h"

namespace {

constexpr int64_t us = 1000;

struct job {
	int number;
	int rounds;
	std::atomic<int> *done;
};

/* fn on n green threads, and until all have ended. */
void crowd(int n, int rounds, gmp_fn fn)
{
	std::atomic<int> done{ 0 };
	std::vector<job> jobs;

	for (int i = 0; i < n; i++)
		jobs.push_back({ i, rounds, &done });
	for (auto &j : jobs)
		CHECK_EQ(gmp_go(fn, &j), 0);
	while (done < n)
		gmp_yield();
}

/* Wait in one of several ways. */
void wait_somehow(int i)
{
	switch (i % 4) {
	case 0: CHECK_EQ(gmp_sleep(10 * us), 0); break;
	case 1: gmp_blocking(usleep(50)); break; /* long enough for sysmon to take the P: 20 us */
	default: gmp_yield();
	}
}

[[gnu::noinline]] void throw_text(const std::string &text)
{
	throw std::runtime_error(text);
}

std::string text_of(int number, int round)
{
	return "exception " + std::to_string(number) + " of round " + std::to_string(round);
}

std::string text_of(const std::exception_ptr &e)
{
	try {
		std::rethrow_exception(e);
	} catch (const std::exception &x) {
		return x.what();
	}
}

/* For those that are never done with: so that a search for leaks finds them. */
void keep_current()
{
	static std::exception_ptr kept[100];
	static std::atomic<int> n{ 0 };

	kept[n++] = std::current_exception();
}

bool has_none()
{
	return !std::current_exception() && std::uncaught_exceptions() == 0;
}

} /* namespace */

/* The body of a case at 1, 2 and 4 Ps, on the first green thread. */
#define RT(name)                                                                                   \
	static void name##_body(void *);                                                           \
	TEST_PROCS(name)                                                                           \
	{                                                                                          \
		run_procs(procs, name##_body, nullptr);                                            \
	}                                                                                          \
	static void name##_body(void *)

static void throw_and_catch(void *arg)
{
	job *j = static_cast<job *>(arg);

	for (int i = 0; i < j->rounds; i++) {
		std::string text = text_of(j->number, i);

		try {
			gmp_yield();
			throw_text(text);
		} catch (const std::runtime_error &e) {
			CHECK(text == e.what());
		}
		CHECK(has_none());
	}
	++*j->done;
}

RT(what_a_green_thread_throws_it_catches)
{
	crowd(50, (int)check_scaled(50), throw_and_catch);
}

static void wait_in_catch(void *arg)
{
	job *j = static_cast<job *>(arg);

	for (int i = 0; i < j->rounds; i++) {
		std::string text = text_of(j->number, i);

		try {
			try {
				throw_text(text);
			} catch (const std::runtime_error &) {
				wait_somehow(j->number + i);
				CHECK(text_of(std::current_exception()) == text);
				wait_somehow(i);
				throw;
			}
		} catch (const std::runtime_error &e) {
			CHECK(text == e.what());
		}
		CHECK(has_none());
	}
	++*j->done;
}

RT(an_exception_is_still_ones_own_after_a_wait_in_its_catch_block)
{
	crowd(50, (int)check_scaled(50), wait_in_catch);
}

static void wait_in_nested_catch(void *arg)
{
	job *j = static_cast<job *>(arg);

	for (int i = 0; i < j->rounds; i++) {
		try {
			throw_text(text_of(j->number, 1));
		} catch (const std::runtime_error &outer) {
			try {
				wait_somehow(i);
				throw_text(text_of(j->number, 2));
			} catch (const std::runtime_error &inner) {
				wait_somehow(i + 1);
				CHECK(text_of(j->number, 2) == inner.what());
			}
			wait_somehow(i + 2);
			CHECK(text_of(std::current_exception()) == text_of(j->number, 1));
			CHECK(text_of(j->number, 1) == outer.what());
		}
		CHECK(has_none());
	}
	++*j->done;
}

RT(exceptions_within_catch_blocks_are_told_apart_across_waits)
{
	crowd(30, (int)check_scaled(30), wait_in_nested_catch);
}

namespace {
struct waits_at_its_end {
	int round;
	int expected;
	~waits_at_its_end()
	{
		CHECK_EQ(std::uncaught_exceptions(), expected);
		wait_somehow(round);
		CHECK_EQ(std::uncaught_exceptions(), expected);
	}
};
} /* namespace */

static void wait_in_destructor(void *arg)
{
	job *j = static_cast<job *>(arg);

	for (int i = 0; i < j->rounds; i++) {
		try {
			waits_at_its_end w{ i + j->number, i % 2 };

			if (i % 2)
				throw_text(text_of(j->number, i));
		} catch (const std::runtime_error &e) {
			CHECK(text_of(j->number, i) == e.what());
		}
		CHECK(has_none());
	}
	++*j->done;
}

RT(a_destructor_may_wait_while_an_exception_is_on_its_way)
{
	crowd(30, (int)check_scaled(40), wait_in_destructor);
}

static void throw_in_blocking_code(void *arg)
{
	job *j = static_cast<job *>(arg);

	for (int i = 0; i < j->rounds; i++) {
		try { /* usleep stands for a blocking call that lasts, so that the P is taken meanwhile */
			CHECK_EQ(gmp_blocking(usleep(100)), 0);
			gmp_blocking((usleep(100), throw_text(text_of(j->number, i))));
		} catch (const std::runtime_error &e) {
			CHECK(gmp_self() != nullptr);
			CHECK(text_of(j->number, i) == e.what());
		}
		CHECK(has_none());
		CHECK_EQ(gmp_blocking_sys(close(-1)), -EBADF);
	}
	++*j->done;
}

RT(blocking_code_may_be_left_by_an_exception)
{
	crowd(10, (int)check_scaled(20), throw_in_blocking_code);
}

static void exit_in_catch(void *arg)
{
	try {
		throw_text("never done with");
	} catch (const std::runtime_error &) {
		keep_current();
		++*static_cast<std::atomic<int> *>(arg);
		gmp_exit();
	}
}

static void expect_none(void *arg)
{
	CHECK(has_none());
	++*static_cast<std::atomic<int> *>(arg);
}

RT(who_ends_in_a_catch_block_leaves_nothing_to_the_next)
{
	std::atomic<int> ended{ 0 };
	int n = 20;

	for (int i = 0; i < n; i++) {
		CHECK_EQ(gmp_go(exit_in_catch, &ended), 0);
		gmp_yield();
		CHECK_EQ(gmp_go(expect_none, &ended), 0);
	}
	while (ended < 2 * n)
		gmp_yield();
}

static void locked_in_catch(void *arg)
{
	job *j = static_cast<job *>(arg);

	CHECK_EQ(gmp_lock_thread(), 0);
	wait_in_catch(j);
}

RT(the_same_for_one_that_is_locked_to_its_thread)
{
	crowd(4, 10, locked_in_catch);
}

static void fail_late(void *arg)
{
	gmp_chan *c = static_cast<gmp_chan *>(arg);
	std::exception_ptr e;

	try {
		throw_text("sent");
	} catch (...) {
		e = std::current_exception();
	}
	auto *copy = new std::exception_ptr(e);

	CHECK_EQ(gmp_chan_send(c, &copy), 0);
}

RT(an_exception_pointer_is_good_in_another_green_thread)
{
	gmp_chan *c = gmp_chan_new(sizeof(std::exception_ptr *), 0);
	gmp_g *g[20];
	std::exception_ptr *e[20];

	for (auto &sender : g)
		CHECK_EQ(gmp_spawn(&sender, fail_late, c, nullptr), 0);
	for (auto &received : e) { /* its sender has one of its own, and drops it meanwhile */
		CHECK_EQ(gmp_chan_recv(c, &received), 0);
		CHECK(text_of(*received) == "sent");
	}
	for (auto sender : g)
		CHECK_EQ(gmp_join(sender), 0);
	/* Only now: the count is libstdc++'s, which is not built for ThreadSanitizer.  It knows of no order
	 * between a use here and a sender that drops the last one. */
	for (auto received : e) {
		CHECK(text_of(*received) == "sent");
		delete received;
	}
	gmp_chan_free(c);
}

static void dropped_in_catch(void *)
{
	try {
		throw_text("dropped");
	} catch (const std::runtime_error &) {
		keep_current();
		gmp_sleep_until(GMP_FOREVER);
	}
}

static void leave_some_behind(void *)
{
	CHECK(has_none());
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_go(dropped_in_catch, nullptr), 0);
	for (int i = 0; i < 20; i++)
		gmp_yield();
}

TEST_PROCS(a_run_within_a_catch_block_leaves_its_exception_alone)
{
	try {
		throw_text("the caller's");
	} catch (const std::runtime_error &) {
		for (int i = 0; i < 3; i++)
			run_procs(procs, leave_some_behind, nullptr);
		CHECK(text_of(std::current_exception()) == "the caller's");
	}
	CHECK(has_none());
}
