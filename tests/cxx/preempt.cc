/* SPDX-License-Identifier: MIT */
/*
 * Tests preemption of green threads that compute in C++: exceptions, containers, streams, locks.
 * Its cases compare times: each needs a CPU.
 */
#include <algorithm>
#include <atomic>
#include <exception>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <time.h>

#include "rt.h"

namespace {

constexpr int64_t ms = 1000000;
constexpr int64_t compute_ns = 200 * ms;

/*
 * CPU time of the process: other programs may take both CPUs for hundreds of milliseconds, and this
 * clock then does not advance.
 */
int64_t cpu_ns()
{
	timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

gmp_stats stats()
{
	gmp_stats s = GMP_STATS_INIT;

	CHECK_EQ(gmp_stats_get(&s), 0);
	return s;
}

/* A G that repeats a step for compute_ns or more. */
struct hog {
	int number = 0;
	long steps = 0;
	void (*step)(hog &h) = nullptr;
};

void repeat_step(void *arg)
{
	hog &h = *static_cast<hog *>(arg);

	for (int64_t end = cpu_ns() + gmp_procs() * compute_ns; cpu_ns() < end; h.steps++)
		h.step(h);
	CHECK(!std::current_exception() && std::uncaught_exceptions() == 0);
}

struct ticker {
	std::vector<int64_t> gaps;
	std::atomic<bool> began{ false }, stop{ false };
};

void tick(void *arg)
{
	ticker &t = *static_cast<ticker *>(arg);
	int64_t last = cpu_ns();

	t.began = true;
	while (!t.stop) {
		CHECK_EQ(gmp_sleep(ms), 0);
		int64_t now = cpu_ns();

		t.gaps.push_back(now - last);
		last = now;
	}
}

/* The gap that half of the time was spent in gaps of at most. */
int64_t median_over_time(std::vector<int64_t> gaps)
{
	int64_t sum = 0, part = 0;

	std::sort(gaps.begin(), gaps.end());
	for (int64_t gap : gaps)
		sum += gap;
	for (int64_t gap : gaps)
		if ((part += gap) >= sum / 2)
			return gap;
	return 0;
}

gmp_g *start(gmp_fn fn, void *arg)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = nullptr;

	a.stack_size = 1 << 20;
	CHECK_EQ(gmp_spawn(&g, fn, arg, &a), 0);
	return g;
}

/* A hog on each P beside a ticker of 1 ms. Returns the median gap of the ticker. */
int64_t run_hogs_once(int procs, void (*step)(hog &h))
{
	std::vector<hog> hogs(static_cast<size_t>(procs));
	std::vector<gmp_g *> gs;
	ticker t;
	gmp_g *g = start(tick, &t);

	while (!t.began)
		gmp_yield();
	for (int i = 0; i < procs; i++) {
		hogs[static_cast<size_t>(i)].number = i + 1;
		hogs[static_cast<size_t>(i)].step = step;
		gs.push_back(start(repeat_step, &hogs[static_cast<size_t>(i)]));
	}
	for (gmp_g *each : gs)
		CHECK_EQ(gmp_join(each), 0);
	t.stop = true;
	CHECK_EQ(gmp_join(g), 0);
	for (const hog &h : hogs)
		CHECK(h.steps > 0);
	return median_over_time(t.gaps);
}

/* The ticker must not wait for the hogs. Repeated only if this machine was too busy for it. */
void run_hogs(int procs, void (*step)(hog &h))
{
	int64_t median = compute_ns;

	for (int part = 0; part < 5 && median >= 100 * ms; part++)
		median = run_hogs_once(procs, step);
	CHECK(median < 100 * ms);
	CHECK(stats().preemptions > 0);
}

struct balance {
	explicit balance(int &n) : n(n)
	{
		n++;
	}
	~balance()
	{
		n--;
	}
	int &n;
};

[[gnu::noinline]] void throw_deep(int depth, int number, int &open)
{
	balance b(open);

	if (depth == 0)
		throw std::runtime_error("hog " + std::to_string(number));
	throw_deep(depth - 1, number, open);
}

void throw_and_catch(hog &h)
{
	int open = 0, caught = 0;

	try {
		throw_deep(8, h.number, open);
	} catch (const std::exception &e) {
		caught++;
		CHECK(e.what() == "hog " + std::to_string(h.number));
		try {
			throw_deep(2, -h.number, open);
		} catch (const std::runtime_error &inner) {
			caught++;
			CHECK(inner.what() == "hog -" + std::to_string(h.number));
		}
		CHECK(std::current_exception() != nullptr);
	}
	CHECK_EQ(caught, 2);
	CHECK_EQ(open, 0);
}

void use_containers(hog &h)
{
	std::map<std::string, std::vector<int>> m;
	int sum = 0;

	for (int i = 0; i < 200; i++)
		m["key " + std::to_string(i % 37)].push_back(i * h.number);
	for (auto &[name, values] : m) {
		std::sort(values.rbegin(), values.rend());
		CHECK(std::is_sorted(values.rbegin(), values.rend()));
		for (int v : values)
			sum += v;
	}
	CHECK_EQ(sum, 199 * 100 * h.number);
}

void use_streams(hog &h)
{
	static thread_local int here;
	std::ofstream out("/dev/null");
	std::stringstream text;
	int number = 0;
	double half = 0;

	here = h.number;
	text << h.number << ' ' << h.number + 0.5 << std::endl;
	text >> number >> half;
	out << text.str() << std::flush;
	CHECK_EQ(number, h.number);
	CHECK(half == h.number + 0.5);
	CHECK_EQ(here, h.number);
}

std::mutex shared;
long total; /* under shared */
std::atomic<long> added{ 0 };

void lock_std_mutex(hog &)
{
	for (int i = 0; i < 20; i++) {
		std::lock_guard<std::mutex> lock(shared);

		total++;
		added++;
	}
}

} /* namespace */

/* The body of a case at 1, 2 and 4 Ps, on the first green thread. */
#define RT(name)                                                                                   \
	static void name##_body(int procs);                                                        \
	static void name##_app(void *arg)                                                          \
	{                                                                                          \
		name##_body(*static_cast<int *>(arg));                                             \
	}                                                                                          \
	TEST_PROCS(name)                                                                           \
	{                                                                                          \
		check_skip_on_valgrind("Valgrind runs one thread at a time");                      \
		run_procs(procs, name##_app, &procs);                                              \
	}                                                                                          \
	static void name##_body(int procs)

RT(throwing_hogs_are_preempted)
{
	run_hogs(procs, throw_and_catch);
}

RT(container_hogs_are_preempted)
{
	run_hogs(procs, use_containers);
}

RT(stream_hogs_are_preempted)
{
	run_hogs(procs, use_streams);
}

RT(std_mutex_hogs_are_preempted)
{
	run_hogs(procs, lock_std_mutex);
	CHECK_EQ(total, added);
}
