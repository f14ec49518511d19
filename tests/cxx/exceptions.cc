/* SPDX-License-Identifier: MIT */
/*
 * Tests C++ exceptions in green threads: each keeps its own across waits, on whichever OS thread it
 * continues.
 */
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

/* Runs fn on n green threads and waits until all have ended. */
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
	case 1: gmp_blocking(usleep(50)); break; /* 50 us: sysmon takes the P after 20 us */
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

/*
 * Keeps a reference to an exception that is never destroyed, so that a leak check finds it
 * reachable.
 */
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

RT(exception_is_caught_by_throwing_green_thread)
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

RT(exception_survives_wait_in_catch_block)
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

RT(exception_nested_in_catch_block_survives_waits)
{
	crowd(30, (int)check_scaled(30), wait_in_nested_catch);
}

namespace {
struct waits_in_destructor {
	int round;
	int expected;
	~waits_in_destructor()
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
			waits_in_destructor w{ i + j->number, i % 2 };

			if (i % 2)
				throw_text(text_of(j->number, i));
		} catch (const std::runtime_error &e) {
			CHECK(text_of(j->number, i) == e.what());
		}
		CHECK(has_none());
	}
	++*j->done;
}

RT(exception_survives_wait_in_destructor)
{
	crowd(30, (int)check_scaled(40), wait_in_destructor);
}

static void throw_in_blocking_code(void *arg)
{
	job *j = static_cast<job *>(arg);

	for (int i = 0; i < j->rounds; i++) {
		try { /* usleep is a blocking call that is long enough for sysmon to take the P */
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

RT(exception_may_leave_blocking_section)
{
	crowd(10, (int)check_scaled(20), throw_in_blocking_code);
}

static void exit_in_catch(void *arg)
{
	try {
		throw_text("never destroyed");
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

RT(exception_of_exited_g_is_not_seen_by_later_g)
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

RT(exception_survives_wait_of_locked_green_thread)
{
	crowd(4, 10, locked_in_catch);
}

static void send_exception_ptr(void *arg)
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

RT(exception_ptr_is_valid_in_other_green_thread)
{
	gmp_chan *c = gmp_chan_new(sizeof(std::exception_ptr *), 0);
	gmp_g *g[20];
	std::exception_ptr *e[20];

	for (auto &sender : g)
		CHECK_EQ(gmp_spawn(&sender, send_exception_ptr, c, nullptr), 0);
	for (auto &received : e) { /* the sender destroys its own copy meanwhile */
		CHECK_EQ(gmp_chan_recv(c, &received), 0);
		CHECK(text_of(*received) == "sent");
	}
	for (auto sender : g)
		CHECK_EQ(gmp_join(sender), 0);
	/*
	 * After the joins: the reference count is in libstdc++, which is not instrumented for
	 * ThreadSanitizer, so it sees no order between a use here and a sender that destroys the
	 * last reference.
	 */
	for (auto received : e) {
		CHECK(text_of(*received) == "sent");
		delete received;
	}
	gmp_chan_free(c);
}

static void killed_in_catch(void *)
{
	try {
		throw_text("killed at shutdown");
	} catch (const std::runtime_error &) {
		keep_current();
		gmp_sleep_until(GMP_FOREVER);
	}
}

static void leave_gs_in_catch(void *)
{
	CHECK(has_none());
	for (int i = 0; i < 10; i++)
		CHECK_EQ(gmp_go(killed_in_catch, nullptr), 0);
	for (int i = 0; i < 20; i++)
		gmp_yield();
}

TEST_PROCS(exception_of_caller_survives_run_in_catch_block)
{
	try {
		throw_text("the caller's");
	} catch (const std::runtime_error &) {
		for (int i = 0; i < 3; i++)
			run_procs(procs, leave_gs_in_catch, nullptr);
		CHECK(text_of(std::current_exception()) == "the caller's");
	}
	CHECK(has_none());
}
