// SPDX-License-Identifier: MIT
//
// Measures the rows of the benchmarks that Boost.Fiber can do.
//
// With PROCS 1 the scheduler is the default, round robin on one thread; with 2 it is work stealing
// on two threads, which share the runnable fibers.  The capacity of a channel must be a power of
// two, and a channel holds one element less.

#include <boost/fiber/all.hpp>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "peer.h"

namespace bf = boost::fibers;

static constexpr size_t STACK = 16 << 10;

static void with_threads(int procs)
{
	if (procs < 2)
		return;
	for (int i = 1; i < procs; i++)
		std::thread([procs] {
			bf::use_scheduling_algorithm<bf::algo::work_stealing>(procs);
			bf::mutex m;
			bf::condition_variable never;
			std::unique_lock<bf::mutex> l(m);

			never.wait(l, [] { return false; });
		}).detach();
	bf::use_scheduling_algorithm<bf::algo::work_stealing>(procs);
}

template <typename F> static bf::fiber start(F f)
{
	return bf::fiber(std::allocator_arg, bf::fixedsize_stack(STACK), f);
}

// Waits until n fibers are done.
class wait_group {
	std::atomic<int64_t> left;
	bf::mutex m;
	bf::condition_variable c;
	bool over = false;

public:
	explicit wait_group(int64_t n) : left(n)
	{
	}

	void done()
	{
		if (--left > 0)
			return;
		std::unique_lock<bf::mutex> l(m);
		over = true;
		c.notify_all();
	}

	void wait()
	{
		std::unique_lock<bf::mutex> l(m);
		c.wait(l, [this] { return over; });
	}
};

static void yield(struct row *row)
{
	at_most(row, row->n > 1000 ? 4 * row->n : 1000000);

	int64_t others = row->n - 1, rounds = row->count / row->n, t0, ns;
	std::atomic<bool> go{ false }, stop{ false };
	std::atomic<int64_t> arrived{ 0 }, total{ 0 };
	wait_group all(others);

	with_threads(row->procs);
	for (int64_t i = 0; i < others; i++)
		start([&] {
			int64_t n = 0;

			arrived++;
			while (!go)
				boost::this_fiber::yield();
			while (!stop) {
				boost::this_fiber::yield();
				n++;
			}
			total += n;
			all.done();
		}).detach();
	while (arrived < others)
		boost::this_fiber::yield();
	t0 = now();
	go = true;
	for (int64_t i = 0; i < rounds; i++)
		boost::this_fiber::yield();
	ns = now() - t0;
	stop = true;
	all.wait();
	took(row, ns, total + rounds);
	check(row->procs > 1 || total >= others * (rounds / 4), "unfair");
}

static void spawn(struct row *row)
{
	at_most(row, 100000);

	std::atomic<int64_t> ran{ 0 };
	int64_t rounds = row->count / row->n, t0;

	with_threads(row->procs);
	auto batch = [&] {
		wait_group all(row->n);

		for (int64_t i = 0; i < row->n; i++)
			start([&] {
				ran++;
				all.done();
			}).detach();
		all.wait();
	};
	batch();
	t0 = now();
	for (int64_t i = 0; i < rounds; i++)
		batch();
	took(row, now() - t0, rounds * row->n);
	check(ran == (rounds + 1) * row->n, "%lld ran", (long long)ran);
}

static void join(struct row *row)
{
	int64_t ran = 0, t0;

	with_threads(row->procs);
	t0 = now();
	for (int64_t i = 0; i < row->count; i++)
		start([&] { ran++; }).join();
	took(row, now() - t0, row->count);
	check(ran == row->count, "%lld ran", (long long)ran);
}

static int64_t fib_of(int n)
{
	if (n < 2)
		return n;
	int64_t a;
	bf::fiber left = start([&a, n] { a = fib_of(n - 1); });
	int64_t b = fib_of(n - 2);

	left.join();
	return a + b;
}

static void fib(struct row *row)
{
	int64_t want, spawns, t0, got;

	at_most(row, 20000);
	int n = fib_tree(row->count, &want, &spawns);
	with_threads(row->procs);
	t0 = now();
	got = fib_of(n);
	took(row, now() - t0, spawns);
	check(got == want, "fib(%d) is not %lld", n, (long long)got);
}

using rendezvous = bf::unbuffered_channel<int64_t>;
using buffered = bf::buffered_channel<int64_t>;

// With two threads a rendezvous takes half a millisecond or more, so measure fewer.
static void fewer_on_two(struct row *row)
{
	if (row->procs > 1)
		at_most(row, 1000);
}

static void ping(struct row *row)
{
	fewer_on_two(row);

	int64_t warm = row->count / 8, t0 = 0;
	rendezvous there, back;

	with_threads(row->procs);
	bf::fiber other = start([&] {
		int64_t v;

		while (there.pop(v) == bf::channel_op_status::success)
			back.push(v + 1);
	});
	for (int64_t i = -warm; i < row->count; i++) {
		int64_t v;

		if (i == 0)
			t0 = now();
		there.push(i);
		back.pop(v);
		check(v == i + 1, "got %lld", (long long)v);
	}
	took(row, now() - t0, row->count);
	there.close();
	other.join();
}

template <typename C> static void pass_on_by(struct row *row, C &c)
{
	enum { SIDES = 8 };
	int64_t each = row->count / row->n, want = 0, t0;
	std::atomic<int64_t> received{ 0 }, sum{ 0 };
	wait_group sent(row->n), done(row->n);

	with_threads(row->procs);
	t0 = now();
	for (int64_t i = 0; i < row->n; i++) {
		start([&, i] {
			for (int64_t k = 0; k < each; k++)
				c.push(k * SIDES + i);
			sent.done();
		}).detach();
		start([&] {
			int64_t v, n = 0, s = 0;

			while (c.pop(v) == bf::channel_op_status::success) {
				n++;
				s += v;
			}
			received += n;
			sum += s;
			done.done();
		}).detach();
		want += each * i + SIDES * (each * (each - 1) / 2);
	}
	sent.wait();
	c.close();
	done.wait();
	took(row, now() - t0, row->count);
	check(received == each * row->n && sum == want, "%lld received", (long long)received);
}

static void pass_on(struct row *row)
{
	buffered c(128);

	pass_on_by(row, c);
}

static void pass_on_unbuffered(struct row *row)
{
	rendezvous c;

	fewer_on_two(row);
	pass_on_by(row, c);
}

static void sieve(struct row *row)
{
	std::deque<rendezvous> chans(1);
	std::vector<int64_t> primes;
	std::atomic<bool> stop{ false };
	rendezvous *in = &chans[0];
	int64_t t0;

	with_threads(row->procs);
	t0 = now();
	start([&stop, in] {
		for (int64_t i = 2; !stop; i++)
			in->push(i);
		in->close();
	}).detach();
	for (int64_t k = 0; k < row->n; k++) {
		int64_t p;

		in->pop(p);
		primes.push_back(p);
		chans.emplace_back();
		rendezvous *out = &chans.back();
		start([in, out, p] {
			int64_t v;

			while (in->pop(v) == bf::channel_op_status::success)
				if (v % p)
					out->push(v);
			out->close();
		}).detach();
		in = out;
	}
	value(row, "", "ms", (double)(now() - t0) / 1e6);
	check(row->n < 1500 || primes[1499] == 12553, "the 1,500th prime is not %lld",
	      (long long)primes.back());
}

static void mutex(struct row *row)
{
	if (row->procs > 1)
		at_most(row, 200000);

	int64_t counter = 0, each = row->count / row->n, t0;
	bf::mutex m;
	wait_group all(row->n);

	with_threads(row->procs);
	t0 = now();
	for (int64_t i = 0; i < row->n; i++)
		start([&] {
			for (int64_t k = 0; k < each; k++) {
				m.lock();
				counter++;
				m.unlock();
			}
			all.done();
		}).detach();
	all.wait();
	took(row, now() - t0, row->count);
	check(counter == each * row->n, "counter is %lld", (long long)counter);
}

static void mutex_alone(struct row *row)
{
	int64_t counter = 0, t0 = now();
	bf::mutex m;

	for (int64_t i = 0; i < row->count; i++) {
		m.lock();
		counter++;
		m.unlock();
	}
	took(row, now() - t0, row->count);
	check(counter == row->count, "counter is %lld", (long long)counter);
}

// Measures 20,000 fibers: with more, the memory per fiber does not change.
static void memory(struct row *row)
{
	enum { SAMPLE = 20000 };
	std::atomic<int64_t> arrived{ 0 };
	bf::mutex m;
	wait_group all(SAMPLE);
	int64_t before = memory_now(), after;

	m.lock();
	for (int i = 0; i < SAMPLE; i++)
		start([&] {
			arrived++;
			m.lock();
			m.unlock();
			all.done();
		}).detach();
	while (arrived < SAMPLE)
		boost::this_fiber::yield();
	after = memory_now();
	m.unlock();
	all.wait();
	value(row, "", "bytes", (double)(after - before) / SAMPLE);
}

#define BOTH(name, fn)                                                                             \
	{ name, 1, fn },                                                                           \
	{                                                                                          \
		name, 2, fn                                                                        \
	}

static struct row rows[] = {
	BOTH("yield/2", yield),
	BOTH("yield/1000", yield),
	BOTH("yield/100000", yield),
	BOTH("spawn/1", spawn),
	BOTH("spawn/1000", spawn),
	BOTH("join/1", join),
	BOTH("fib", fib),
	BOTH("ping/chan", ping),
	BOTH("chan/1x1", pass_on),
	BOTH("chan/8x8", pass_on),
	{ "chan/8x8 unbuffered", 2, pass_on_unbuffered },
	{ "sieve/1500", 1, sieve },
	{ "mutex/alone", 1, mutex_alone },
	BOTH("mutex/8", mutex),
	{ "memory/wait/100000", 1, memory },
};

int main(int argc, char **argv)
{
	return peer_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
