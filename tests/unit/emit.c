/* SPDX-License-Identifier: MIT */
/*
 * Tests that rings of trace events give back each event whole and in order, count what was
 * overwritten exactly, and give a session no event of another one, also beside threads that emit.
 *
 * wrap: os_reserve
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "base/emit.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/os.h"

enum { THREADS = 4, BATCH = 512 };

static bool no_memory;
static struct record batch[BATCH];
static uint64_t used, lost_all; /* of the collector */

void *__real_os_reserve(size_t bytes);

void *__wrap_os_reserve(size_t bytes)
{
	return ld_rlx(&no_memory) ? NULL : __real_os_reserve(bytes);
}

static void put(uint64_t i)
{
	emit(EVENT_STEAL, (unsigned)i, i, i * 3, ~i);
}

/* A record that put(i) has written. */
static void check_put(const struct record *rec, uint64_t i)
{
	CHECK_EQ(rec->word[0] & 0xff, EVENT_STEAL);
	CHECK_EQ(rec->word[0] >> 8 & 0xff, i & 0xff);
	CHECK_EQ(rec->word[1], i);
	CHECK_EQ(rec->word[2], i * 3);
	CHECK_EQ(rec->word[3], ~i);
}

static uint32_t begin(void)
{
	used = lost_all = 0;
	return emit_begin(os_membarrier_init());
}

static struct ring *ring_of(int tid)
{
	for (struct ring *r = emit_rings(); r; r = r->next)
		if (r->tid == tid)
			return r;
	return NULL;
}

static struct ring *own_ring(void)
{
	return ring_of(os_thread_id());
}

static uint64_t length(const struct ring *r)
{
	return ld_rlx(&r->written) - r->read;
}

static int count_rings(void)
{
	int n = 0;

	for (struct ring *r = emit_rings(); r; r = r->next)
		n++;
	return n;
}

/* Read what the ring holds, which is put(from) up to put(to - 1). */
static void expect_puts(struct ring *r, uint64_t from, uint64_t to)
{
	uint64_t lost;

	while (from < to) {
		unsigned n = ring_read(r, batch, BATCH, &lost);

		CHECK_EQ(lost, 0);
		CHECK_EQ(n, min_of(to - from, (uint64_t)BATCH));
		for (unsigned i = 0; i < n; i++)
			check_put(&batch[i], from++);
	}
	CHECK(ring_is_empty(r));
	CHECK_EQ(ring_read(r, batch, BATCH, &lost), 0);
	CHECK_EQ(lost, 0);
}

TEST(emit_without_session_makes_no_ring)
{
	put(1);
	CHECK(!emit_rings());
	gmp__emit(RECORD_CPU, EVENT_RUN, 0, 1, 2, 3);
	gmp__emit_text(RECORD_CPU, EVENT_LOG, 1, "text", 4);
	CHECK(!emit_rings());
	CHECK_EQ(emit_refused(), 0);
}

TEST(emit_events_are_read_in_order)
{
	begin();
	for (uint64_t i = 0; i < 1000; i++)
		put(i);
	CHECK_EQ(count_rings(), 1);
	CHECK(!ring_is_empty(own_ring()));
	CHECK_EQ(own_ring()->number, 1);
	CHECK_EQ(own_ring()->mask + 1, RING_LARGE);
	expect_puts(own_ring(), 0, 1000);
	put(1000);
	emit_end();
	expect_puts(own_ring(), 1000, 1001);
	put(1001);
	expect_puts(own_ring(), 1001, 1001);
	emit_fini();
}

TEST(emit_record_has_lower_bits_of_ticks)
{
	uint64_t mask = UINT64_MAX >> RECORD_TICKS_SHIFT, lost, began = cpu_ticks();

	begin();
	put(0);
	CHECK_EQ(ring_read(own_ring(), batch, 1, &lost), 1);
	uint64_t ticks = batch[0].word[0] >> RECORD_TICKS_SHIFT;

	CHECK(((ticks - began) & mask) <= cpu_ticks() - began);
}

TEST(emit_full_ring_loses_the_oldest_exactly)
{
	static const uint64_t more[] = { 0, 1, 7, RING_LARGE - 1, RING_LARGE, 3 * RING_LARGE + 5 };
	uint64_t at = 0, lost;

	begin();
	put(at++);
	struct ring *r = own_ring();

	expect_puts(r, 0, 1);
	for (size_t i = 0; i < countof(more); i++) {
		uint64_t end = at + RING_LARGE + more[i];

		while (at < end)
			put(at++);
		CHECK_EQ(ring_read(r, batch, 1, &lost), 1);
		CHECK_EQ(lost, more[i]);
		check_put(&batch[0], end - RING_LARGE);
		expect_puts(r, end - RING_LARGE + 1, end);
	}
}

/* An event that is about to overwrite: its thread has got as far as step 2. */
TEST(emit_record_being_overwritten_is_lost)
{
	uint64_t lost;

	begin();
	for (uint64_t i = 0; i < RING_LARGE; i++)
		put(i);
	struct ring *r = own_ring();

	st_rlx(&r->reserved, (uint64_t)RING_LARGE + 3);
	CHECK_EQ(ring_read(r, batch, 2, &lost), 0);
	CHECK_EQ(lost, 2);
	CHECK_EQ(ring_read(r, batch, BATCH, &lost), BATCH - 1);
	CHECK_EQ(lost, 1);
	check_put(&batch[0], 3);
	st_rlx(&r->reserved, (uint64_t)RING_LARGE);
	expect_puts(r, BATCH + 2, RING_LARGE);
}

static void check_text(struct ring *r, size_t n)
{
	char text[300], got[EVENT_TEXT_MOST + RECORD_TEXT];
	size_t most = min_of(n, (size_t)EVENT_TEXT_MOST), k = 0;
	uint64_t lost;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 7 + n);
	gmp__emit_text(recording(), EVENT_LOG, n + 1, text, n);
	unsigned got_n = ring_read(r, batch, BATCH, &lost);

	CHECK_EQ(got_n, 1 + (most + RECORD_TEXT - 1) / RECORD_TEXT);
	CHECK_EQ(batch[0].word[0] & 0xffff, EVENT_LOG);
	CHECK_EQ(batch[0].word[1], n + 1);
	for (unsigned i = 1; i < got_n; i++) {
		size_t some = batch[i].word[0] >> 8 & 0xff;

		CHECK_EQ(batch[i].word[0] & 0xff, EVENT_MORE);
		CHECK_EQ(some, min_of(most - k, (size_t)RECORD_TEXT));
		memcpy(got + k, &batch[i].word[1], some);
		k += some;
	}
	CHECK_EQ(k, most);
	CHECK_EQ(memcmp(got, text, most), 0);
}

TEST(emit_text_is_read_whole)
{
	static const size_t sizes[] = { 0, 1, 23, 24, 25, 48, 239, 240, 241, 300 };

	begin();
	put(0);
	expect_puts(own_ring(), 0, 1);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < countof(sizes); i++)
			check_text(own_ring(), sizes[i]);
		/* the second round begins at the end of the ring */
		while (round == 0 && ld_rlx(&own_ring()->written) % RING_LARGE != RING_LARGE - 4)
			put(0);
		own_ring()->read = ld_rlx(&own_ring()->written);
	}
}

TEST(emit_second_session_reuses_the_ring)
{
	uint32_t first = begin();

	put(1);
	struct ring *r = own_ring();

	emit_end(); /* put(1) is not read */
	emit_discard();
	uint32_t second = begin();

	CHECK(second != first);
	CHECK(ring_is_empty(r));
	put(2);
	CHECK(own_ring() == r);
	CHECK_EQ(count_rings(), 1);
	expect_puts(r, 2, 3);
	emit_end();
}

TEST(emit_stale_session_writes_nothing)
{
	begin();
	put(1);
	uint32_t what = recording();

	emit_end();
	gmp__emit(what, EVENT_RUN, 0, 1, 2, 3);
	gmp__emit_text(what, EVENT_LOG, 0, "text", 4);
	expect_puts(own_ring(), 1, 2);
	begin();
	gmp__emit(what, EVENT_RUN, 0, 1, 2, 3);
	CHECK(ring_is_empty(own_ring()));
	CHECK_EQ(own_ring()->reserved, own_ring()->written);
	put(2);
	expect_puts(own_ring(), 2, 3);
}

TEST(emit_new_run_has_new_rings)
{
	for (uint64_t run = 0; run < 20; run++) {
		begin();
		put(run);
		CHECK_EQ(count_rings(), 1);
		CHECK_EQ(own_ring()->mask + 1, RING_LARGE);
		expect_puts(own_ring(), run, run + 1);
		emit_end();
		emit_fini();
		CHECK(!emit_rings());
		CHECK_EQ(recording(), 0);
	}
}

TEST(emit_accounting_does_not_disturb_a_session)
{
	emit_account(true);
	CHECK_EQ(recording(), RECORD_CPU);
	uint32_t session = begin();

	CHECK_EQ(recording(), session | RECORD_CPU);
	put(0);
	uint32_t what = recording();

	emit_account(false);
	CHECK_EQ(recording(), session);
	gmp__emit(what, EVENT_STEAL, 1, 1, 3, ~(uint64_t)1);
	emit_account(true);
	put(2);
	emit_end();
	CHECK_EQ(recording(), RECORD_CPU);
	expect_puts(own_ring(), 0, 3);
	emit_account(false);
	CHECK_EQ(recording(), 0);
}

static void *put_one(void *tid)
{
	*(int *)tid = os_thread_id();
	put(7);
	return NULL;
}

/* Returns the tid of a thread that has emitted put(7), and ended. */
static int put_by_thread(void)
{
	pthread_t t;
	int tid;

	CHECK_EQ(pthread_create(&t, NULL, put_one, &tid), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
	while (os_thread_exists(tid)) /* pthread_join returns a little earlier */
		os_yield();
	return tid;
}

TEST(emit_ring_of_ended_thread_is_freed_when_empty)
{
	begin();
	int tid = put_by_thread();

	put(1);
	CHECK_EQ(count_rings(), 2);
	emit_free_ended();
	CHECK_EQ(count_rings(), 2);
	expect_puts(ring_of(tid), 7, 8);
	emit_free_ended();
	CHECK_EQ(count_rings(), 1);
	CHECK(!ring_of(tid));
	emit_free_ended(); /* the thread of the first one exists */
	expect_puts(own_ring(), 1, 2);
	emit_free_ended();
	CHECK_EQ(count_rings(), 1);
	put(2);
	expect_puts(own_ring(), 2, 3);
}

TEST(emit_ring_of_living_thread_is_kept)
{
	begin();
	put(1);
	struct ring *r = own_ring();

	put_by_thread(); /* its ring is the newest */
	expect_puts(r, 1, 2);
	emit_free_ended();
	CHECK_EQ(count_rings(), 2);
	CHECK(own_ring() == r);
	put(2);
	expect_puts(r, 2, 3);
}

TEST(emit_freed_rings_make_room)
{
	begin();
	for (int i = 0; i < 3 * RINGS_LARGE; i++) {
		int tid = put_by_thread();

		CHECK_EQ(ring_of(tid)->mask + 1, RING_LARGE);
		expect_puts(ring_of(tid), 7, 8);
		emit_free_ended();
		CHECK(count_rings() <= 2);
	}
}

TEST(emit_later_rings_are_small)
{
	begin();
	for (int i = 0; i < RINGS_LARGE; i++)
		put_by_thread();
	for (uint64_t i = 0; i < RING_SMALL + 3; i++)
		put(i);
	uint64_t lost;

	CHECK_EQ(own_ring()->mask + 1, RING_SMALL);
	CHECK_EQ(ring_read(own_ring(), batch, 1, &lost), 1);
	CHECK_EQ(lost, 3);
	check_put(&batch[0], 3);
	expect_puts(own_ring(), 4, RING_SMALL + 3);
	emit_fini();
}

TEST(emit_too_many_threads_are_counted)
{
	begin();
	for (int i = 0; i < RINGS_MOST; i++)
		put_by_thread();
	CHECK_EQ(count_rings(), RINGS_MOST);
	CHECK_EQ(emit_refused(), 0);
	put_by_thread();
	put(1);
	put(2);
	CHECK_EQ(count_rings(), RINGS_MOST);
	CHECK_EQ(emit_refused(), 3);
	emit_fini();
	begin();
	put(3);
	expect_puts(own_ring(), 3, 4);
}

TEST(emit_without_memory_is_counted)
{
	begin();
	st_rlx(&no_memory, true);
	put(0);
	gmp__emit_text(recording(), EVENT_LOG, 0, "text", 4);
	put_by_thread();
	CHECK(!emit_rings());
	CHECK_EQ(emit_refused(), 3);
	for (int i = 0; i < RINGS_LARGE; i++) {
		emit_end();
		begin();
		put(0);
	}
	st_rlx(&no_memory, false);
	emit_end();
	begin();
	CHECK_EQ(emit_refused(), 0);
	put(5);
	CHECK_EQ(own_ring()->mask + 1, RING_LARGE); /* failures have taken no place */
	expect_puts(own_ring(), 5, 6);
	CHECK_EQ(emit_refused(), 0);
}

/* --- threads that emit at full speed beside a collector --- */

struct emitter {
	pthread_t thread;
	uint64_t events; /* to emit; 0: until `stop` */
	uint64_t emitted;
	int tid;
	uint64_t next; /* (collector) the least number that it may read next */
} aligned_to(CACHE_LINE);

static struct emitter emitters[THREADS];
static int nemitters;
static bool stop;

/* Each event has its number, what derives from it, and the session that was seen before. */
static void *run_emitter(void *arg)
{
	struct emitter *e = arg;

	st_rlx(&e->tid, os_thread_id());
	for (uint64_t i = 0; e->events ? i < e->events : !ld_rlx(&stop); i++) {
		uint32_t what = recording();

		if (what != 0)
			gmp__emit(what, EVENT_STEAL, (unsigned)i, i, i * 3 + what, ~i);
		e->emitted++;
	}
	return NULL;
}

static void start_emitters(int n, uint64_t events)
{
	nemitters = n;
	for (int i = 0; i < nemitters; i++) {
		emitters[i].events = events;
		CHECK_EQ(pthread_create(&emitters[i].thread, NULL, run_emitter, &emitters[i]), 0);
	}
}

static uint64_t join_emitters(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < nemitters; i++) {
		CHECK_EQ(pthread_join(emitters[i].thread, NULL), 0);
		sum += emitters[i].emitted;
	}
	return sum;
}

static struct emitter *emitter_of(const struct ring *r)
{
	for (int i = 0; i < nemitters; i++)
		if (ld_rlx(&emitters[i].tid) == r->tid)
			return &emitters[i];
	check_failed("a ring of an unknown thread %d", r->tid);
}

/* Read all that the rings hold now.  exactly: a number that is missing is that of a lost event. */
static void collect(uint32_t session, bool exactly)
{
	for (struct ring *r = emit_rings(); r; r = r->next) {
		struct emitter *e = emitter_of(r);
		uint64_t left = length(r), lost;

		while (left > 0) {
			unsigned n = ring_read(r, batch, BATCH, &lost);

			for (unsigned i = 0; i < n; i++) {
				uint64_t k = batch[i].word[1];

				CHECK_EQ(batch[i].word[0] & 0xffff, (k & 0xff) << 8 | EVENT_STEAL);
				CHECK_EQ(batch[i].word[2], k * 3 + session);
				CHECK_EQ(batch[i].word[3], ~k);
				CHECK(k >= e->next);
				CHECK(!exactly || k == e->next + (i == 0 ? lost : 0));
				e->next = k + 1;
			}
			if (n == 0 && exactly)
				e->next += lost;
			used += n;
			lost_all += lost;
			left -= min_of(left, n + lost);
		}
	}
}

static bool all_emitted(uint64_t events)
{
	for (int i = 0; i < nemitters; i++) {
		struct ring *r = ring_of(ld_rlx(&emitters[i].tid));

		if (!r || ld_rlx(&r->written) < events)
			return false;
	}
	return true;
}

static void run_beside_collector(bool asymmetric, bool slow)
{
	uint64_t events = (uint64_t)check_scaled(2000000);

	used = lost_all = 0;
	uint32_t session = emit_begin(os_membarrier_init() && asymmetric);

	start_emitters(THREADS, events);
	while (!all_emitted(events)) {
		collect(session, true);
		if (slow)
			os_nap(2000000);
	}
	emit_end();
	collect(session, true);
	CHECK_EQ(join_emitters(), THREADS * events);
	CHECK_EQ(used + lost_all, THREADS * events);
	CHECK(used >= THREADS * min_of(events, (uint64_t)RING_LARGE));
	CHECK_EQ(emit_refused(), 0);
	emit_fini();
}

TEST(emit_each_event_of_fast_threads_is_used_or_lost)
{
	run_beside_collector(true, false);
}

TEST(emit_slow_collector_counts_what_it_loses)
{
	run_beside_collector(true, true);
}

TEST(emit_without_membarrier_loses_nothing_uncounted)
{
	run_beside_collector(false, false);
}

static bool has_events(void)
{
	for (struct ring *r = emit_rings(); r; r = r->next)
		if (!ring_is_empty(r))
			return true;
	return false;
}

/* The emitters never stop, so each end of a session is beside events that are being written. */
static void run_sessions(bool asymmetric, int sessions)
{
	asymmetric = os_membarrier_init() && asymmetric;
	start_emitters(2, 0);
	for (int i = 0; i < sessions; i++) {
		uint64_t written[THREADS], emitted = 0;
		uint32_t session;

		used = lost_all = 0;
		for (struct ring *r = emit_rings(); r; r = r->next)
			emitted -= ld_rlx(&r->written);
		session = emit_begin(asymmetric);
		while (i % 8 == 0 && !has_events())
			os_yield();
		for (int k = i % 3; k >= 0; k--)
			collect(session, false);
		emit_end();
		for (struct ring *r = emit_rings(); r; r = r->next) {
			written[emitter_of(r) - emitters] = ld_rlx(&r->written);
			emitted += ld_rlx(&r->written);
		}
		if (i % 4 != 3) { /* every fourth session leaves the last events unread */
			collect(session, false);
			CHECK_EQ(used + lost_all, emitted);
		}
		for (struct ring *r = emit_rings(); r; r = r->next)
			CHECK_EQ(written[emitter_of(r) - emitters], ld_rlx(&r->written));
		if (i % 8 == 0)
			emit_discard();
	}
	st_rlx(&stop, true);
	join_emitters();
	emit_fini();
}

TEST(emit_session_reads_no_event_of_an_earlier_one)
{
	run_sessions(true, 200);
}

TEST(emit_session_without_membarrier_reads_no_earlier_event)
{
	run_sessions(false, 200);
}

static void *toggle(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop)) {
		emit_account(true);
		CHECK(recording() & RECORD_CPU);
		emit_account(false);
		CHECK(!(recording() & RECORD_CPU));
	}
	return NULL;
}

TEST(emit_accounting_beside_sessions_is_kept)
{
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, toggle, NULL), 0);
	for (int i = 0; i < check_scaled(100000); i++) {
		uint32_t session = emit_begin(false);

		CHECK_EQ(recording() & ~(uint32_t)RECORD_CPU, session);
		emit_end();
		CHECK_EQ(recording() & ~(uint32_t)RECORD_CPU, 0);
	}
	st_rlx(&stop, true);
	CHECK_EQ(pthread_join(t, NULL), 0);
}
