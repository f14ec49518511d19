/* SPDX-License-Identifier: MIT */
/* Tests that a dump's group of alike green threads lists its members in the order of their ids. */
#define _GNU_SOURCE 1
#include "check.h"

#include <stdio.h>
#include <string.h>

#include "observe/dump/dump_group.h"

static struct dump_groups all;

static void add(uint64_t id, const char *name)
{
	static struct snapshot v;

	v.id = id;
	snprintf(v.name, sizeof(v.name), "%s", name);
	CHECK(dump_group_add(&all, &v));
	CHECK_EQ(all.n, 1);
}

static const char *members(void)
{
	static struct line l;

	l.n = 0;
	CHECK_EQ(dump_group_members_sig(&all.of[0], 0, &l), all.of[0].members);
	l.text[l.n] = '\0';
	return l.text;
}

#define CHECK_MEMBERS(text) CHECK_EQ(strcmp(members(), (text)), 0)

TEST(alike_ids_in_any_order_are_sorted)
{
	add(9, "");
	add(3, "");
	add(7, "");
	add(5, "");
	CHECK_MEMBERS("3, 5, 7, 9");
}

TEST(alike_ids_that_close_a_gap_join_two_ranges)
{
	add(5, "");
	add(3, "");
	add(6, "");
	add(2, "");
	CHECK_MEMBERS("2, 3, 5, 6");
	add(4, "");
	CHECK_MEMBERS("2-6");
}

TEST(alike_named_ids_are_sorted_and_in_no_range)
{
	add(4, "");
	add(3, "b");
	add(2, "");
	add(1, "");
	add(5, "");
	CHECK_MEMBERS("1, 2, 3 \"b\", 4, 5");
}

TEST(alike_too_many_ids_are_counted)
{
	for (uint64_t id = 40; id > 0; id -= 2)
		add(id, "");
	CHECK_MEMBERS("2, 4, 6, 8, 10, 12, 14, 16, and 12 more");
	add(41, "");
	add(17, "");
	CHECK_MEMBERS("2, 4, 6, 8, 10, 12, 14, 16, 17, and 13 more");
	add(3, "");
	CHECK_MEMBERS("2-4, 6, 8, 10, 12, 14, 16, 17, and 13 more");
	add(1, "x");
	CHECK_MEMBERS("1 \"x\", 2-4, 6, 8, 10, 12, 14, 16, 17, and 13 more");
}

/* Ids arrive in any order, since g structs are reused; all ids end in one range. */
TEST(alike_shuffled_ids_end_in_one_range)
{
	enum { N = 8 };

	for (unsigned round = 0; round < 1000; round++) {
		uint64_t id[N], rand = round + 1;

		memset(&all, 0, sizeof(all.n) + sizeof(all.slot));
		for (unsigned i = 0; i < N; i++)
			id[i] = i + 1;
		for (unsigned i = N - 1; i > 0; i--) {
			unsigned j;
			uint64_t other;

			rand = rand * 6364136223846793005u + 1442695040888963407u;
			j = (unsigned)(rand >> 33) % (i + 1);
			other = id[j];
			id[j] = id[i];
			id[i] = other;
		}
		for (unsigned i = 0; i < N; i++)
			add(id[i], "");
		CHECK_MEMBERS("1-8");
	}
}
