/* SPDX-License-Identifier: MIT */
/*
 * Tests the order in which lock-free words change: other threads that read them between any two
 * instructions of the writer see a consistent state. The tests single-step the writer, some for
 * seconds of CPU time: each needs a CPU.
 *
 * floors 0..4
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "wait/parkinglot.h"
#include "runq.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>

#include "chan.h"
#include "netpoll/netpoll.h"
#include "step.h"
#include "wait/mutex.h"
#include "wait/sync.h"
#include "waiter.h"

/* --- the rings: RUNQ-1, and ORD(runq.take) --- */

static struct g greens[RUNQ_SIZE], stale;
static struct p owner, other;
static uint32_t start; /* the index at which all lanes begin: that of greens[0] */

/* Every slot between head and tail may be stolen at any moment. */
static void check_ring(struct p *pp, struct g *first)
{
	for (uint32_t i = pp->head[LANE_NEW]; i != pp->tail[LANE_NEW]; i++)
		CHECK(pp->ring[LANE_NEW][i % RUNQ_SIZE] == &first[i - start]);
}

static void check_yield_lane(struct p *pp, struct g *first)
{
	for (uint32_t i = (uint32_t)pp->head[LANE_YIELD]; i != pp->tail[LANE_YIELD]; i++)
		CHECK(pp->ring[LANE_YIELD][i % RUNQ_SIZE] == &first[i - start]);
}

static void check_owner_ring(void)
{
	check_ring(&owner, &greens[0]);
	check_yield_lane(&owner, &greens[0]);
}

static void begin_rings(uint32_t at)
{
	start = at;
	owner.shared = owner.open = other.shared = other.open = true;
	owner.room = other.room = RUNQ_SIZE;
	owner.yield_room = other.yield_room = RUNQ_SIZE;
	owner.head[LANE_NEW] = owner.tail[LANE_NEW] = other.head[LANE_NEW] = other.tail[LANE_NEW] =
		at;
	owner.head[LANE_YIELD] = owner.tail[LANE_YIELD] = other.head[LANE_YIELD] =
		other.tail[LANE_YIELD] = at;
	owner.round_end = other.round_end = at; /* no round is under way */
	for (int i = 0; i < RUNQ_SIZE; i++)
		owner.ring[LANE_NEW][i] = other.ring[LANE_NEW][i] = owner.ring[LANE_YIELD][i] =
			other.ring[LANE_YIELD][i] = &stale;
}

TEST(runq_put_publishes_slot_before_tail)
{
	for (int shared = 0; shared < 2; shared++) {
		begin_rings(UINT32_MAX - 3);
		owner.shared = owner.open = shared;
		for (int i = 0; i < 8; i++)
			STEP(check_owner_ring, runq_put(&owner, &greens[i]));
		CHECK_EQ(runq_len(&owner), 8);
	}
}

TEST(runq_yield_publishes_slot_before_tail)
{
	for (int shared = 0; shared < 2; shared++) {
		begin_rings(UINT32_MAX - 3);
		owner.shared = owner.open = shared;
		for (int i = 0; i < 8; i++)
			STEP(check_owner_ring, runq_yield(&owner, &greens[i]));
		CHECK_EQ(ring_len(&owner, LANE_YIELD), 8);
	}
}

/* The owner may overwrite a slot that head has passed at any moment. */
static void overwrite_taken_slots(void)
{
	for (uint32_t i = owner.head[LANE_NEW]; i-- != start;)
		owner.ring[LANE_NEW][i % RUNQ_SIZE] = &stale;
	for (uint32_t i = (uint32_t)owner.head[LANE_YIELD]; i-- != start;)
		owner.ring[LANE_YIELD][i % RUNQ_SIZE] = &stale;
	/* the first is returned, not put */
	check_ring(&other, &greens[1]);
	check_yield_lane(&other, &greens[1]);
}

TEST(runq_get_reads_slot_before_reuse)
{
	struct g *gp = NULL;

	for (int i = 0; i < 10; i++) {
		begin_rings(UINT32_MAX - 3);
		for (int k = 0; k <= i; k++)
			runq_put(&owner, &greens[k]);
		STEP(overwrite_taken_slots, gp = runq_get(&owner));
		CHECK(gp == &greens[0]);
	}
}

TEST(runq_steal_reads_slot_before_reuse)
{
	struct g *gp = NULL;

	for (int i = 0; i < 10; i++) {
		begin_rings(UINT32_MAX - 3);
		for (int k = 0; k <= i; k++)
			runq_put(&owner, &greens[k]);
		STEP(overwrite_taken_slots, gp = runq_steal(&other, &owner, false));
		CHECK(gp == &greens[0]);
		CHECK_EQ(runq_len(&other), i / 2);
		for (int k = 1; k <= i / 2; k++)
			CHECK(runq_get(&other) == &greens[k]);
	}
}

TEST(runq_overflow_reads_slots_before_reuse)
{
	begin_rings(UINT32_MAX - 3);
	CHECK_EQ(gq_init(1024), 0);
	for (int i = 0; i < RUNQ_SIZE; i++)
		runq_put(&owner, &greens[i]);
	STEP(overwrite_taken_slots, runq_put(&owner, &stale));
	lock(&sched.lock, LR_SCHED);
	for (int i = 0; i < RUNQ_BATCH; i++)
		CHECK(gq_get(&other, 1) == &greens[i]);
	unlock(&sched.lock, LR_SCHED);
	for (int i = RUNQ_BATCH; i < RUNQ_SIZE; i++)
		CHECK(runq_get(&owner) == &greens[i]);
	gq_fini();
}

TEST(runq_steal_of_yield_lane_reads_slot_before_reuse)
{
	struct g *gp = NULL;

	for (int i = 0; i < 10; i++) {
		begin_rings(UINT32_MAX - 3);
		for (int k = 0; k <= i; k++)
			runq_yield(&owner, &greens[k]);
		STEP(overwrite_taken_slots, gp = runq_steal(&other, &owner, false));
		CHECK(gp == &greens[0]);
		CHECK_EQ(ring_len(&other, LANE_YIELD), i / 2);
		for (int k = 1; k <= i / 2; k++)
			CHECK(runq_get_yielded(&other) == &greens[k]);
	}
}

TEST(runq_overflow_of_yield_lane_reads_slots_before_reuse)
{
	begin_rings(UINT32_MAX - 3);
	CHECK_EQ(gq_init(RUNQ_SIZE), 0);
	for (int i = 0; i < RUNQ_SIZE - 1; i++)
		runq_yield(&owner, &greens[i]);
	owner.yield_room = RUNQ_SIZE - 1; /* the slot before head stays free: see the handler */
	STEP(overwrite_taken_slots, runq_yield(&owner, &greens[RUNQ_SIZE - 1]));
	CHECK_EQ(gq_len(LANE_YIELD), RUNQ_BATCH);
	for (int i = 0; i < RUNQ_SIZE; i++)
		CHECK(runq_get_yielded(&owner) == &greens[i]);
	gq_fini();
}

static bool acted, acts_on_first; /* in a child: the thief has stolen; not from the yield lane */
static struct g *stolen, *taken;  /* by the thief, by the owner */

/* The operations on the yield lane do not touch the others. */
static void steal_once(void)
{
	if (!acted && step_fork()) {
		acted = true;
		stolen = runq_steal(&other, &owner, false);
		if (!acts_on_first)
			step_stop();
	}
	CHECK(runq_len(&owner) <= RUNQ_SIZE);
}

static struct g *any_left(void)
{
	struct g *gp;

	if ((gp = runq_get(&owner)) || (gp = runq_get(&other)) || (gp = runq_get_yielded(&owner)) ||
	    (gp = runq_get_yielded(&other)) || !sched.gqn)
		return gp;
	lock(&sched.lock, LR_SCHED);
	gp = gq_get(&other, 1);
	unlock(&sched.lock, LR_SCHED);
	return gp;
}

/* Each of the n Gs is in exactly one place. */
static void expect_all(int n)
{
	int times[RUNQ_SIZE] = { 0 };
	struct g *gp;

	if (stolen)
		times[stolen - greens]++;
	if (taken)
		times[taken - greens]++;
	while ((gp = any_left()))
		CHECK_EQ(times[gp - greens]++, 0);
	for (int i = 0; i < n; i++)
		CHECK_EQ(times[i], 1);
}

/* Operations of a ring's owner, with n Gs in the ring. */
static void take_one(int n)
{
	(void)n;
	taken = runq_get(&owner);
}

static void take_back_last(int n)
{
	if (runq_take_back(&owner, &greens[n - 1]))
		taken = &greens[n - 1];
}

static void put_one_more(int n)
{
	runq_put(&owner, &greens[n]);
}

static void put_one_first(int n)
{
	struct glist one = { 0 };
	uint32_t end;

	owner.room = RUNQ_SIZE;
	glist_push(&one, &greens[n]);
	CHECK(runq_put_first(&owner, &one, &end));
}

/* The same, with n Gs in the yield lane. */
static void take_one_yielded(int n)
{
	(void)n;
	taken = runq_get_yielded(&owner);
}

static void begin_round(int n)
{
	(void)n;
	taken = runq_get_round(&owner);
	CHECK(taken || ring_len(&owner, LANE_YIELD) == 0); /* unless the thief has taken all */
}

static void yield_one_more(int n)
{
	runq_yield(&owner, &greens[n]);
}

static void yield_slowly(int n)
{
	owner.yield_room = 0;
	runq_yield(&owner, &greens[n]);
	owner.yield_room = RUNQ_SIZE;
}

/* The end of a case, or of a child that has acted at one instruction. */
static void expect_all_in(int n)
{
	expect_all(n);
	if (acted)
		_exit(0);
}

/*
 * The thief steals at each instruction of the owner's operation, and the operation continues: in a
 * child of the process each.  The parent continues without a thief.
 */
static void steal_at_any_instruction_of(void (*op)(int n), int n)
{
	bool second = op == take_one_yielded || op == begin_round || op == yield_one_more ||
		      op == yield_slowly;

	begin_rings(UINT32_MAX - 3);
	for (int i = 0; i < n; i++)
		(second ? runq_yield : runq_put)(&owner, &greens[i]);
	owner.room = owner.yield_room = (uint32_t)n; /* the rings have no more room */
	stolen = taken = NULL;
	acts_on_first = !second;
	STEP(steal_once, op(n));
	if (second)
		CHECK(owner.head[LANE_NEW] == start && owner.tail[LANE_NEW] == start);
	expect_all_in(n + (op == put_one_more || op == put_one_first || op == yield_one_more ||
			   op == yield_slowly));
}

static void steal_at_any_instruction(void (*op)(int n), int most)
{
	CHECK_EQ(gq_init(1024), 0);
	for (int n = 1; n <= most; n++)
		steal_at_any_instruction_of(op, n);
	gq_fini();
}

TEST(runq_steal_at_any_instruction_of_get_takes_each_once)
{
	steal_at_any_instruction(take_one, 5);
}

/* A thief that has found LANE_EVENT empty before greens[1] was put there takes the new G. */
static void steal_new_once(void)
{
	uint32_t tail = owner.tail[LANE_EVENT];

	if (acted || !step_fork())
		return;
	acted = true;
	owner.tail[LANE_EVENT] = (uint32_t)owner.head[LANE_EVENT];
	stolen = runq_steal(&other, &owner, false);
	owner.tail[LANE_EVENT] = tail;
}

TEST(runq_get_takes_g_of_event_if_thief_takes_last_new_one)
{
	static char stack;

	CHECK_EQ(gq_init(1024), 0);
	for (uint32_t takes = 0; takes < NEW_EVERY; takes++) {
		begin_rings(start);
		greens[1].stack = &stack;
		runq_put(&owner, &greens[0]);
		runq_put(&owner, &greens[1]);
		owner.takes = takes;
		stolen = taken = NULL;
		STEP(steal_new_once, taken = runq_get(&owner));
		CHECK(taken != NULL);
		expect_all_in(2);
	}
	gq_fini();
}

TEST(runq_steal_at_any_instruction_of_take_back_takes_each_once)
{
	steal_at_any_instruction(take_back_last, 5);
}

TEST(runq_steal_at_any_instruction_of_overflow_loses_none)
{
	steal_at_any_instruction(put_one_more, 3);
}

TEST(runq_steal_at_any_instruction_of_put_first_loses_none)
{
	steal_at_any_instruction(put_one_first, 5);
}

/* Gs in the yield lane: a sanitizer adds many instructions to the slow paths. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { YIELDED_MOST = 2 };
#else
enum { YIELDED_MOST = 5 };
#endif

TEST(runq_steal_at_any_instruction_of_get_yielded_takes_each_once)
{
	steal_at_any_instruction(take_one_yielded, YIELDED_MOST);
}

TEST(runq_steal_at_any_instruction_of_yield_to_full_ring_loses_none)
{
	steal_at_any_instruction(yield_one_more, YIELDED_MOST);
}

TEST(runq_steal_at_any_instruction_of_slow_yield_loses_none)
{
	steal_at_any_instruction(yield_slowly, YIELDED_MOST);
}

TEST(runq_steal_at_any_instruction_of_round_end_takes_each_once)
{
	steal_at_any_instruction(begin_round, YIELDED_MOST);
}

static int in_ring;

static void put_first_once(void)
{
	if (step_fork()) {
		acted = true;
		step_stop();
		take_one(0);
		put_one_first(in_ring);
	}
}

static void take_back_once(void)
{
	if (step_fork()) {
		acted = true;
		step_stop();
		take_back_last(in_ring);
	}
}

/* The owner acts at each instruction of a steal, in a child each. */
static void act_at_any_instruction_of_steal(void (*act)(void), int n)
{
	begin_rings(UINT32_MAX - 3);
	for (int i = 0; i < n; i++)
		runq_put(&owner, &greens[i]);
	taken = NULL;
	in_ring = n;
	STEP(act, stolen = runq_steal(&other, &owner, false));
	expect_all_in(n + (acted && act == put_first_once));
}

/* It takes a G, and puts another in front. */
TEST(runq_put_first_at_any_instruction_of_steal_loses_none)
{
	for (int n = 1; n <= 5; n++)
		act_at_any_instruction_of_steal(put_first_once, n);
}

/* It takes back its last G. */
TEST(runq_take_back_at_any_instruction_of_steal_takes_each_once)
{
	for (int n = 1; n <= 5; n++)
		act_at_any_instruction_of_steal(take_back_once, n);
}

/* --- wakers: PARK-5 --- */

enum { WAITERS = 3 };

static struct waiter w[WAITERS];
static struct sudog sg[WAITERS];
static char elem[WAITERS];
static int timed_out_waiter; /* the waiter already claimed by its timeout */

static void begin_waiters(const void *key)
{
	for (int i = 0; i < WAITERS; i++) {
		w[i] = (struct waiter){ .state = WAITER_ARMED };
		sg[i] = (struct sudog){ .w = &w[i], .key = key, .elem = &elem[i] };
	}
	timed_out_waiter = -1;
}

static void claim_timed_out(int i)
{
	timed_out_waiter = i;
	CHECK(waiter_claim(&w[i], -ETIMEDOUT));
}

/* A waiter that is not queued relies on no claim being under way. */
static void check_waiters(void)
{
	for (int i = 0; i < WAITERS; i++)
		CHECK(sg[i].queued || (w[i].state & 3) != WAITER_ARMED);
}

/* The n waiters from `first` on are dequeued, with this result. */
static void expect(int first, int n, int result)
{
	for (int i = 0; i < WAITERS; i++) {
		bool out = i >= first && i < first + n;

		CHECK_EQ(sg[i].queued, !out && i != timed_out_waiter);
		if (i == timed_out_waiter)
			CHECK_EQ(waiter_result(w[i].state), -ETIMEDOUT);
		else
			CHECK_EQ(w[i].state & 3, out ? WAITER_CLAIMED : WAITER_ARMED);
		if (out && i != timed_out_waiter)
			CHECK_EQ(waiter_result(w[i].state & ~(uint32_t)WAITER_DONE), result);
	}
}

static void expect_all_out(void)
{
	for (int i = 0; i < WAITERS; i++)
		CHECK(!sg[i].queued);
}

static void enqueue_all(const void *key)
{
	begin_waiters(key);
	for (int i = 0; i < WAITERS; i++) {
		struct bucket *b = lot_lock(key);

		lot_enqueue(b, key, &sg[i], false);
		lot_unlock(b);
	}
}

TEST(lot_wake_claims_before_dequeue)
{
	struct glist out = { 0 };
	uint64_t key = 0;

	for (int lost = 0; lost < 2; lost++) {
		struct bucket *b;
		bool woken = false;

		enqueue_all(&key);
		if (lost)
			claim_timed_out(0);
		b = lot_lock(&key);
		STEP(check_waiters, woken = lot_wake_first(b, &key, -EPIPE, &out));
		CHECK(woken);
		expect(0, 1 + lost, -EPIPE);
		STEP(check_waiters, lot_wake_all(b, &key, &out));
		expect_all_out();
		lot_unlock(b);
	}
}

TEST(mutex_unlock_claims_before_dequeue)
{
	gmp_mutex m = GMP_MUTEX_INIT;

	for (int lost = 0; lost < 2; lost++) {
		CHECK_EQ(gmp_mutex_lock(&m), 0);
		enqueue_all((char *)&m + MUTEX_KEY);
		m.state |= 2; /* PARKED */
		if (lost)
			claim_timed_out(0);
		STEP(check_waiters, gmp_mutex_unlock(&m));
		expect(0, 1 + lost, -EALREADY); /* overdue: it is handed over */
		for (int i = 1 + lost; i < WAITERS; i++) {
			sg[i].due = 0; /* without the pacing (MUTEX-4 of mutex.c) */
			CHECK_EQ(gmp_mutex_unlock(&m), 0);
		}
		CHECK_EQ(gmp_mutex_unlock(&m), 0);
	}
}

static gmp_chan *chan_with_waiters(int kind, size_t cap)
{
	gmp_chan *c = gmp_chan_new(1, cap);

	begin_waiters(c);
	for (int i = 0; i < WAITERS; i++) {
		elem[i] = (char)('a' + i);
		sg[i].kind = (uint16_t)kind;
		lock(&c->lock, LR_CHAN);
		chan_enqueue(c, &sg[i]);
		unlock(&c->lock, LR_CHAN);
	}
	return c;
}

static void close_and_free(gmp_chan *c)
{
	STEP(check_waiters, gmp_chan_close(c));
	expect_all_out();
	gmp_chan_free(c);
}

TEST(chan_peer_claims_before_dequeue)
{
	for (int lost = 0; lost < 2; lost++) {
		gmp_chan *c = chan_with_waiters(IN_RECVQ, 0);
		char got = 'x';
		int err = -1;

		if (lost)
			claim_timed_out(0);
		STEP(check_waiters, err = gmp_chan_try_send(c, &got));
		CHECK_EQ(err, 0);
		expect(0, 1 + lost, 0);
		CHECK_EQ(elem[lost], 'x');
		close_and_free(c);

		c = chan_with_waiters(IN_SENDQ, 0);
		if (lost)
			claim_timed_out(0);
		STEP(check_waiters, err = gmp_chan_try_recv(c, &got));
		CHECK_EQ(err, 0);
		expect(0, 1 + lost, 0);
		CHECK_EQ(got, 'a' + lost);
		close_and_free(c);
	}
}

/* --- the unlocked read of a try: ORD(chan.closed) --- */

static gmp_chan *tried;
static int countdown;
static uint32_t round; /* odd: the other thread runs */
static int cap;        /* capacity of the channel; 0: a receiver waits, 1: an element is buffered */
static void (*other_op)(void);

static void close_and_empty(void)
{
	CHECK_EQ(gmp_chan_close(tried), 0);
	if (cap)
		gmp_chan_recv(tried, NULL);
}

static void fill_and_close(void)
{
	CHECK_EQ(gmp_chan_send(tried, "e"), 0);
	CHECK_EQ(gmp_chan_close(tried), 0);
}

static void *other_thread(void *arg)
{
	for (uint32_t i = 1;; i += 2) {
		while (ld_acq(&round) != i) {
			if (ld_acq(&round) == UINT32_MAX)
				return arg;
			sched_yield();
		}
		other_op();
		st_rel(&round, i + 1);
	}
}

/* After `countdown` instructions the other thread runs, unless the caller holds the lock. */
static void run_other_at_countdown(void)
{
	if (countdown-- > 0 || ld_rlx(&round) % 2 || ld_rlx(&tried->closed) ||
	    ld_rlx(&tried->lock.word))
		return;
	add_seq(&round, 1);
	while (ld_acq(&round) % 2)
		sched_yield();
	if (ld_rlx(&tried->closed))
		step_stop();
}

/* A try ends so many instructions before the countdown: no later countdown ends during one, even if
 * a path is a little longer. */
enum { SPARE = 50 };

/*
 * Calls try on a new channel and runs op on the other thread after every possible number of
 * instructions. judge tells whether the result was correct at some instant.
 */
static void try_while(void (*op)(void), gmp_chan *(*make)(void), int (*try)(char *),
		      bool (*judge)(int err))
{
	pthread_t t;

#ifdef __SANITIZE_THREAD__
	check_skip("the sanitizer holds a lock between two instructions, which the other thread "
		   "needs");
#endif
	other_op = op;
	CHECK_EQ(pthread_create(&t, NULL, other_thread, NULL), 0);
	countdown = 0;
	for (int i = 0; i < 300 && countdown < SPARE; i++) {
		char e = 'x';
		int err = 1;

		tried = make();
		countdown = i;
		STEP(run_other_at_countdown, err = try(&e));
		CHECK(judge(err));
		if (!tried->closed)
			op();
		gmp_chan_free(tried);
	}
	st_rel(&round, UINT32_MAX);
	CHECK_EQ(pthread_join(t, NULL), 0);
	st_rel(&round, 0);
}

static int try_send(char *e)
{
	return gmp_chan_try_send(tried, e);
}

static int try_recv(char *e)
{
	return gmp_chan_try_recv(tried, e);
}

static int recv_until_past(char *e)
{
	int err = gmp_chan_recv_until(tried, e, 0);

	return err == -ETIMEDOUT ? -EAGAIN : err;
}

static gmp_chan *with_receiver(void)
{
	cap = 0;
	return chan_with_waiters(IN_RECVQ, 0);
}

static gmp_chan *with_room(void)
{
	cap = 1;
	return gmp_chan_new(1, 1);
}

static gmp_chan *with_element(void)
{
	gmp_chan *c = with_room();

	CHECK_EQ(gmp_chan_send(c, "e"), 0);
	return c;
}

static bool done_or_closed(int err)
{
	return err == 0 || err == -EPIPE;
}

static bool done_or_eagain(int err)
{
	return err == 0 || err == -EAGAIN;
}

/* A receiver waited until the close: the channel was never open without a receiver. */
TEST(chan_try_send_eagain_is_linearizable_with_close)
{
	try_while(close_and_empty, with_receiver, try_send, done_or_closed);
}

/* The channel held an element until after the close: it was never open and empty. */
TEST(chan_try_recv_eagain_is_linearizable_with_close)
{
	try_while(close_and_empty, with_element, try_recv, done_or_closed);
}

/* The channel was empty until an element and then the close came: it was never closed and empty. */
TEST(chan_recv_epipe_is_reported_only_if_empty)
{
	try_while(fill_and_close, with_room, try_recv, done_or_eagain);
	try_while(fill_and_close, with_room, recv_until_past, done_or_eagain);
}

static void check_closed_before_dequeue(void)
{
	CHECK(tried->closed || tried->recvq.first || tried->sendq.first);
}

TEST(chan_close_sets_closed_before_emptying_queues)
{
	for (int kind = IN_RECVQ; kind <= IN_SENDQ; kind++) {
		tried = chan_with_waiters(kind, 0);
		STEP(check_closed_before_dequeue, gmp_chan_close(tried));
		expect_all_out();
		gmp_chan_free(tried);
	}
}

TEST(netpoll_claims_before_dequeue)
{
	struct glist out = { 0 };
	struct polldesc *pd;
	int fds[2];

	CHECK_EQ(netpoll_init(), 0);
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	CHECK_EQ(netpoll_open(fds[0], true, &out), 0);
	pd = netpoll_find(fds[0]);
	begin_waiters(pd);
	lock(&pd->lock, LR_POLLDESC);
	for (int i = 0; i < WAITERS; i++)
		netpoll_enqueue(&pd->side[SIDE_READ], &sg[i], false);
	unlock(&pd->lock, LR_POLLDESC);
	claim_timed_out(0);
	STEP(check_waiters, netpoll_pass(pd, pd->seq, SIDE_READ, &out));
	expect(0, 2, 0);
	STEP(check_waiters, netpoll_shut(pd, &out));
	expect_all_out();
	netpoll_fini();
}
