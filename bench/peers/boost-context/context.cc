// SPDX-License-Identifier: MIT
//
// Measures the rows of the benchmarks that Boost.Context can do.
//
// Boost.Context has no scheduler: "switch" is its resume, "yield" returns to a loop that resumes
// one context after the other, and "spawn" makes a context, runs it to its end, and returns its
// stack to a pool.

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <boost/context/pooled_fixedsize_stack.hpp>
#include <vector>

#include "peer.h"

namespace ctx = boost::context;

static constexpr size_t STACK = 16 << 10;

static void switching(struct row *row)
{
	int64_t turns = 0, warm = row->count / 8, t0 = 0;
	ctx::fiber other{ std::allocator_arg, ctx::fixedsize_stack(STACK), [&](ctx::fiber &&back) {
				 for (;;) {
					 turns++;
					 back = std::move(back).resume();
				 }
				 return std::move(back);
			 } };

	for (int64_t i = -warm; i < row->count / 2; i++) {
		if (i == 0)
			t0 = now();
		other = std::move(other).resume();
	}
	took(row, now() - t0, row->count / 2 * 2);
	check(turns == warm + row->count / 2, "%lld turns", (long long)turns);
}

static void yield(struct row *row)
{
	at_most(row, row->n > 1000 ? 4 * row->n : 1000000);

	int64_t rounds = row->count / row->n, sum = 0, t0 = 0;
	std::vector<ctx::fiber> all;

	for (int64_t i = 0; i < row->n; i++)
		all.emplace_back(std::allocator_arg, ctx::fixedsize_stack(STACK),
				 [&](ctx::fiber &&back) {
					 for (;;) {
						 sum++;
						 back = std::move(back).resume();
					 }
					 return std::move(back);
				 });
	for (int64_t round = -1; round < rounds; round++) {
		if (round == 0)
			t0 = now();
		for (auto &f : all)
			f = std::move(f).resume();
	}
	took(row, now() - t0, rounds * row->n);
	check(sum == (rounds + 1) * row->n, "%lld yields", (long long)sum);
}

static void spawn(struct row *row)
{
	ctx::pooled_fixedsize_stack stacks(STACK);
	int64_t ran = 0, t0 = now();

	for (int64_t i = 0; i < row->count; i++) {
		ctx::fiber f{ std::allocator_arg, stacks, [&](ctx::fiber &&back) {
				     ran++;
				     return std::move(back);
			     } };

		f = std::move(f).resume();
	}
	took(row, now() - t0, row->count);
	check(ran == row->count, "%lld ran", (long long)ran);
}

static struct row rows[] = {
	{ "switch", 0, switching },   { "yield/2", 1, yield }, { "yield/1000", 1, yield },
	{ "yield/100000", 1, yield }, { "spawn/1", 1, spawn },
};

int main(int argc, char **argv)
{
	return peer_main(rows, sizeof(rows) / sizeof(rows[0]), argc, argv);
}
