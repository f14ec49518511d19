/* SPDX-License-Identifier: MIT */
/*
 * Tests own thread-locals in C++: constructors at the first use, destructors at the end of the
 * green thread, and exceptions that are alive across waits.
 */
#include <atomic>
#include <cerrno>
#include <exception>
#include <stdexcept>
#include <string>

#include <pthread.h>
#include <unistd.h>

#include "rt.h"

namespace {

enum { MANY = 64, ROUNDS = 30 };

std::atomic<int> made, ended, key_ended;

struct tracked {
	std::string text;
	int number = -1;

	tracked() : text("made in a green thread, longer than a short string")
	{
		made++;
	}
	~tracked()
	{
		CHECK(number >= 0 && !text.empty());
		gmp_yield(); /* a destructor may wait */
		ended++;
	}
	tracked(const tracked &) = delete;
	tracked &operator=(const tracked &) = delete;
};

thread_local tracked mine;
thread_local int plain = 3;
pthread_key_t key;

void wait_somehow(int i)
{
	switch (i % 4) {
	case 0: CHECK_EQ(gmp_sleep(10000), 0); break;
	case 1: gmp_blocking(usleep(50)); break;
	default: gmp_yield();
	}
}

/* Runs fn on n green threads with own thread-locals, and waits until all have ended. */
void crowd(int n, gmp_fn fn)
{
	gmp_g *g[MANY];
	gmp_attr a = GMP_ATTR_INIT;

	a.flags = GMP_OWN_TLS;
	for (intptr_t i = 0; i < n; i++) {
		int err = gmp_spawn(&g[i], fn, reinterpret_cast<void *>(i), &a);

		if (err == -ENOTSUP)
			check_skip("no own thread-locals here");
		CHECK_EQ(err, 0);
	}
	for (int i = 0; i < n; i++)
		CHECK_EQ(gmp_join(g[i]), 0);
}

void use_object(void *arg)
{
	int n = static_cast<int>(reinterpret_cast<intptr_t>(arg));
	const tracked *at = &mine;

	CHECK_EQ(mine.number, -1);
	CHECK_EQ(plain, 3);
	mine.number = n;
	plain = n;
	for (int i = 0; i < ROUNDS; i++) {
		wait_somehow(n + i);
		CHECK(&mine == at);
		CHECK_EQ(mine.number, n);
		CHECK_EQ(plain, n);
	}
}

void use_nothing(void *)
{
	gmp_yield();
}

void objects(void *)
{
	crowd(MANY, use_object);
	CHECK_EQ(made.load(), MANY);
	CHECK_EQ(ended.load(), MANY);
	crowd(MANY, use_nothing); /* an object that is not used is not made */
	CHECK_EQ(made.load(), MANY);
	crowd(MANY, use_object);
	CHECK_EQ(made.load(), 2 * MANY);
	CHECK_EQ(ended.load(), 2 * MANY);
}

void exit_early(void *)
{
	mine.number = 1;
	gmp_exit();
}

void exits(void *)
{
	crowd(8, exit_early);
	CHECK_EQ(ended.load(), 8);
}

void wait_forever(void *)
{
	mine.number = 1;
	gmp_sleep(GMP_FOREVER);
}

void leave_objects(void *)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	a.flags = GMP_OWN_TLS;
	for (int i = 0; i < 8; i++) {
		int err = gmp_spawn(&g, wait_forever, nullptr, &a);

		if (err == -ENOTSUP)
			check_skip("no own thread-locals here");
		CHECK_EQ(err, 0);
	}
	while (made < 8)
		gmp_yield();
}

/* They have the blocks of those before. */
void use_objects_again(void *)
{
	crowd(8, use_nothing);
	CHECK_EQ(ended.load(), 0);
	crowd(8, use_object);
	CHECK_EQ(ended.load(), 8);
}

/* The order of a thread's end: objects, then keys. */
void end_key(void *)
{
	CHECK_EQ(ended.load(), key_ended.load() + 1);
	key_ended++;
}

void use_both(void *)
{
	mine.number = 1;
	CHECK_EQ(pthread_setspecific(key, &key), 0);
}

void order(void *)
{
	CHECK_EQ(pthread_key_create(&key, end_key), 0);
	for (int i = 0; i < 10; i++)
		crowd(1, use_both);
	CHECK_EQ(key_ended.load(), 10);
}

void throw_across_waits(void *arg)
{
	int n = static_cast<int>(reinterpret_cast<intptr_t>(arg));

	for (int i = 0; i < ROUNDS; i++) {
		std::string text = "exception " + std::to_string(n) + " " + std::to_string(i);

		try {
			throw std::runtime_error(text);
		} catch (const std::runtime_error &e) {
			wait_somehow(n + i);
			CHECK(e.what() == text);
			try {
				throw n;
			} catch (int inner) {
				wait_somehow(n + i + 1);
				CHECK_EQ(inner, n);
			}
			std::exception_ptr p = std::current_exception();

			CHECK(p != nullptr);
			wait_somehow(n + i + 2);
			CHECK(e.what() == text);
		}
		CHECK(std::current_exception() == nullptr);
		CHECK_EQ(std::uncaught_exceptions(), 0);
	}
}

void exit_in_handler(void *)
{
	try {
		throw 1;
	} catch (int) {
		gmp_exit();
	}
}

void no_exception(void *)
{
	CHECK(std::current_exception() == nullptr);
	CHECK_EQ(std::uncaught_exceptions(), 0);
}

void exceptions(void *)
{
	crowd(MANY, throw_across_waits);
	for (int i = 0; i < 10; i++) {
		crowd(1, exit_in_handler);
		crowd(1, no_exception);
	}
}

/* With and without the flag on the same OS threads. */
void mixed(void *)
{
	std::atomic<int> left{ 16 };
	static std::atomic<int> *counter;

	counter = &left;
	for (intptr_t i = 0; i < 16; i++)
		CHECK_EQ(gmp_go(
				 [](void *arg) {
					 throw_across_waits(arg);
					 --*counter;
				 },
				 reinterpret_cast<void *>(i)),
			 0);
	crowd(16, throw_across_waits);
	while (left)
		gmp_yield();
}

} // namespace

TEST_PROCS(thread_local_objects_live_as_long_as_green_thread)
{
	run_procs(procs, objects, nullptr);
}

TEST_PROCS(gmp_exit_ends_thread_local_objects)
{
	run_procs(procs, exits, nullptr);
}

TEST_PROCS(objects_of_killed_green_threads_do_not_end)
{
	run_procs(procs, leave_objects, nullptr);
	run_procs(procs, use_objects_again, nullptr);
	CHECK_EQ(made.load(), 16);
}

TEST_PROCS(objects_end_before_keys)
{
	run_procs(procs, order, nullptr);
}

TEST_PROCS(exceptions_stay_with_green_thread)
{
	run_procs(procs, exceptions, nullptr);
}

TEST_PROCS(exceptions_with_and_without_flag)
{
	run_procs(procs, mixed, nullptr);
}
