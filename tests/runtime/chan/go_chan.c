/* SPDX-License-Identifier: MIT */
/*
 * Tests channels with programs of the same intent as Go's public tests
 * test/chan/{fifo,goroutines,nonblock,perm,zerosize}.go, and TestChan, TestNonblockRecvRace and
 * TestMultiConsumer of src/runtime/chan_test.go. Each section names its counterpart.
 */
#include "go_util.h"

/* --- fifo.go --- */

GO_MAIN(chan_buffered_keeps_fifo_order)
{
	gmp_chan *c = make_ints(10);

	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < 10; i++)
			put_int(c, i);
		for (int i = 0; i < 10; i++)
			CHECK_EQ(get_int(c), i);
	}
}

struct link {
	gmp_chan *c, *before, *after;
	int number;
};

/* Receives after the previous link has received, and checks that it gets its own number. */
static void take_own(void *arg)
{
	struct link *l = arg;

	CHECK_EQ(get_int(l->before), 0);
	CHECK_EQ(get_int(l->c), l->number);
	CHECK_EQ(gmp_chan_close(l->after), 0);
}

static void take_own_first(void *arg)
{
	struct link *l = arg;

	CHECK_EQ(gmp_chan_recv(l->before, NULL), -EPIPE);
	CHECK_EQ(get_int(l->c), l->number);
	CHECK_EQ(gmp_chan_close(l->after), 0);
}

GO_MAIN(chan_unbuffered_serves_receivers_in_order)
{
	gmp_chan *c = make_ints(0), *before = make_ints(1);

	put_int(before, 0);
	for (int i = 0; i < 10; i++) {
		struct link *l = make_memory(sizeof(*l));

		*l = (struct link){ c, before, make_ints(0), i };
		go(i ? take_own_first : take_own, l);
		before = l->after;
	}
	for (int i = 0; i < 10; i++)
		put_int(c, i);
	CHECK_EQ(gmp_chan_recv(before, NULL), -EPIPE);
}

/* --- goroutines.go --- */

struct ends {
	gmp_chan *left, *right;
};

static void pass_on_plus_one(void *arg)
{
	struct ends *e = arg;

	put_int(e->left, get_int(e->right) + 1);
}

GO_MAIN(chan_chain_of_10000_gs_passes_value)
{
	int n = SLOW ? 1000 : 10000;
	gmp_chan *leftmost = make_ints(0), *right = leftmost;

	for (int i = 0; i < n; i++) {
		struct ends *e = make_memory(sizeof(*e));

		e->left = right;
		right = e->right = make_ints(0);
		go(pass_on_plus_one, e);
	}
	put_int(right, 1);
	CHECK_EQ(get_int(leftmost), n + 1);
}

/* --- nonblock.go --- */

struct text {
	const char *at;
	size_t n;
};

struct typed {
	gmp_chan *c, *strobe;
	size_t size;
	const void *value;
};

static void receive_typed(void *arg)
{
	struct typed *t = arg;
	unsigned char got[32];

	CHECK_EQ(gmp_chan_recv(t->c, got), 0);
	CHECK(memcmp(got, t->value, t->size) == 0);
	put_int(t->strobe, 1);
}

static void send_typed(void *arg)
{
	struct typed *t = arg;

	CHECK_EQ(gmp_chan_send(t->c, t->value), 0);
	put_int(t->strobe, 1);
}

static void check_try_calls(size_t size, const void *value, size_t capacity)
{
	struct typed t = { make_chan(size, capacity), make_ints(0), size, value };
	unsigned char got[32];

	CHECK_EQ(gmp_chan_try_recv(t.c, got), -EAGAIN);
	go(receive_typed, &t);
	wait_parked(1);
	CHECK_EQ(gmp_chan_try_send(t.c, value), 0);
	CHECK_EQ(get_int(t.strobe), 1);
	if (capacity == 0)
		CHECK_EQ(gmp_chan_try_send(t.c, value), -EAGAIN);
	go(send_typed, &t);
	if (capacity)
		CHECK_EQ(get_int(t.strobe), 1);
	else
		wait_parked(1);
	memset(got, 0, sizeof(got));
	CHECK_EQ(gmp_chan_try_recv(t.c, got), 0);
	CHECK(memcmp(got, value, size) == 0);
	if (capacity == 0)
		CHECK_EQ(get_int(t.strobe), 1);
	CHECK_EQ(gmp_chan_try_recv(t.c, got), -EAGAIN);
}

GO_MAIN(chan_try_calls_match_waiter_for_each_element_type)
{
	int32_t small = 123;
	int64_t large = 123456789012;
	_Bool yes = 1;
	struct text hello = { "hello", 5 };

	for (size_t capacity = 0; capacity < 2; capacity++) {
		check_try_calls(sizeof(small), &small, capacity);
		check_try_calls(sizeof(large), &large, capacity);
		check_try_calls(sizeof(yes), &yes, capacity);
		check_try_calls(sizeof(hello), &hello, capacity);
		check_try_calls(0, "", capacity);
	}
}

/* --- perm.go: errors of Go's compiler, and panics of its runtime --- */

GO_MAIN(chan_misuse_returns_einval_or_epipe)
{
	gmp_chan *c = make_ints(1);
	int v = 1;

	CHECK_EQ(gmp_chan_send(NULL, &v), -EINVAL);
	CHECK_EQ(gmp_chan_recv(NULL, &v), -EINVAL);
	CHECK_EQ(gmp_chan_close(NULL), -EINVAL);
	CHECK_EQ(gmp_chan_send(c, NULL), -EINVAL);
	CHECK_EQ(gmp_chan_close(c), 0);
	CHECK_EQ(gmp_chan_close(c), -EPIPE);
	CHECK_EQ(gmp_chan_send(c, &v), -EPIPE);
	CHECK_EQ(gmp_chan_try_send(c, &v), -EPIPE);
	CHECK_EQ(v, 1);
}

/* --- zerosize.go --- */

GO_MAIN(chan_of_zero_size_elements_counts_them)
{
	gmp_chan *none = make_chan(0, 0), *few = make_chan(0, 2),
		 *many = make_chan(0, SIZE_MAX / 2);

	CHECK_EQ(gmp_chan_try_send(none, NULL), -EAGAIN);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(gmp_chan_send(few, NULL), 0);
	CHECK_EQ(gmp_chan_try_send(few, NULL), -EAGAIN);
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(gmp_chan_send(many, NULL), 0);
	CHECK_EQ(gmp_chan_len(many), 1000);
	CHECK_EQ(gmp_chan_cap(many), SIZE_MAX / 2);
	for (int i = 0; i < 1000; i++)
		CHECK_EQ(gmp_chan_recv(many, NULL), 0);
	CHECK_EQ(gmp_chan_try_recv(many, NULL), -EAGAIN);
}

/* --- TestChan --- */

struct one_call {
	gmp_chan *c, *done;
	atomic_int over;
	int v, result;
};

static void receive_one(void *arg)
{
	struct one_call *o = arg;

	o->v = -1;
	o->result = gmp_chan_recv(o->c, &o->v);
	atomic_store(&o->over, 1);
	put_int(o->done, 1);
}

static void send_zero(void *arg)
{
	struct one_call *o = arg;

	o->v = 0;
	o->result = gmp_chan_send(o->c, &o->v);
	atomic_store(&o->over, 1);
	put_int(o->done, 1);
}

static struct one_call *call(gmp_fn fn, gmp_chan *c)
{
	struct one_call *o = make_memory(sizeof(*o));

	o->c = c;
	o->done = make_ints(1);
	go(fn, o);
	return o;
}

static void check_wait_if_empty(size_t capacity)
{
	gmp_chan *c = make_ints(capacity);
	struct one_call *a = call(receive_one, c), *b = call(receive_one, c);
	int v;

	wait_parked(2);
	CHECK(!atomic_load(&a->over) && !atomic_load(&b->over));
	CHECK_EQ(gmp_chan_try_recv(c, &v), -EAGAIN);
	put_int(c, 7);
	put_int(c, 7);
	get_int(a->done);
	get_int(b->done);
	CHECK(a->v == 7 && b->v == 7);
}

static void check_wait_if_full(size_t capacity)
{
	gmp_chan *c = make_ints(capacity);
	int v = 0;

	CHECK_EQ(gmp_chan_cap(c), capacity);
	for (size_t i = 0; i < capacity; i++) {
		CHECK_EQ(gmp_chan_len(c), i);
		put_int(c, (int)i);
	}
	struct one_call *o = call(send_zero, c);

	wait_parked(1);
	CHECK(!atomic_load(&o->over));
	CHECK_EQ(gmp_chan_try_send(c, &v), -EAGAIN);
	CHECK_EQ(get_int(c), 0);
	get_int(o->done);
	CHECK_EQ(gmp_chan_len(c), capacity);
}

static void check_close(size_t capacity)
{
	gmp_chan *c = make_ints(capacity), *d = make_ints(capacity);
	int v;

	for (size_t i = 0; i < capacity; i++)
		put_int(c, (int)i + 1);
	CHECK_EQ(gmp_chan_close(c), 0);
	for (size_t i = 0; i < capacity; i++)
		CHECK_EQ(get_int(c), i + 1);
	for (int i = 0; i < 2; i++) {
		v = 5;
		CHECK_EQ(gmp_chan_recv(c, &v), -EPIPE);
		CHECK_EQ(v, 0);
	}
	struct one_call *o = call(receive_one, d);

	wait_parked(1);
	CHECK_EQ(gmp_chan_close(d), 0);
	get_int(o->done);
	CHECK(o->v == 0 && o->result == -EPIPE);
}

struct counting {
	gmp_chan *c, *done;
	int n, first;
	int *seen;
};

static void send_range(void *arg)
{
	struct counting *s = arg;

	for (int i = 0; i < s->n; i++)
		put_int(s->c, s->first + i);
}

static void count_range(void *arg)
{
	struct counting *s = arg;

	for (int i = 0; i < s->n; i++)
		s->seen[get_int(s->c)]++;
	put_int(s->done, 1);
}

static void check_delivery(size_t capacity)
{
	enum { P = 4 };
	int n = SLOW ? 100 : 1000, *sum = make_memory(sizeof(int) * (size_t)n);
	gmp_chan *c = make_ints(capacity), *done = make_ints(0);
	struct counting *one = make_memory(sizeof(*one)), *r[P];

	*one = (struct counting){ .c = c, .n = 100 };
	go(send_range, one);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(get_int(c), i);
	for (int p = 0; p < P; p++) {
		struct counting *s = make_memory(sizeof(*s));

		*s = (struct counting){ .c = c, .n = n };
		go(send_range, s);
	}
	for (int p = 0; p < P; p++) {
		r[p] = make_memory(sizeof(*r[p]));
		*r[p] = (struct counting){ c, done, n, 0, make_memory(sizeof(int) * (size_t)n) };
		go(count_range, r[p]);
	}
	for (int p = 0; p < P; p++)
		get_int(done);
	for (int p = 0; p < P; p++)
		for (int i = 0; i < n; i++)
			sum[i] += r[p]->seen[i];
	for (int i = 0; i < n; i++)
		CHECK_EQ(sum[i], P);
}

GO_MAIN(chan_of_each_capacity_waits_closes_and_delivers)
{
	for (size_t capacity = 0; capacity < 200;
	     capacity = capacity < 5 ? capacity + 1 : capacity * 2) {
		check_wait_if_empty(capacity);
		check_wait_if_full(capacity);
		check_close(capacity);
		check_delivery(capacity);
	}
}

/* --- TestNonblockRecvRace --- */

static void try_recv_one(void *arg)
{
	struct one_call *o = arg;

	/* gets the buffered element or -EPIPE, never -EAGAIN */
	o->result = gmp_chan_try_recv(o->c, &o->v);
	CHECK(o->result == 0 || o->result == -EPIPE);
	put_int(o->done, 1);
}

GO_MAIN(chan_try_recv_racing_close_gets_element_or_epipe)
{
	struct one_call o;
	int n = (int)check_scaled(10000), v;

	for (int i = 0; i < n; i++) {
		o.c = gmp_chan_new(sizeof(int), 1);
		o.done = gmp_chan_new(sizeof(int), 0);
		put_int(o.c, 1);
		go(try_recv_one, &o);
		if (i % 4 == 0)
			gmp_yield();
		CHECK_EQ(gmp_chan_close(o.c), 0);
		int err = gmp_chan_recv(o.c, &v);

		get_int(o.done);
		CHECK_EQ(err + o.result, -EPIPE); /* one of the two got it */
		gmp_chan_free(o.c);
		gmp_chan_free(o.done);
	}
}

/* --- TestMultiConsumer --- */

enum { WORKERS = 23 };

static const int primes[] = { 2, 3, 7, 11, 13, 17, 19, 23, 27, 31 };
static gmp_chan *queue, *results;
static gmp_wg workers_left;
static long sum_sent;

struct worker {
	int v, yields_at;
};

static void work(void *arg)
{
	struct worker *w = arg;

	while (gmp_chan_recv(queue, &w->v) == 0) {
		if (w->v == w->yields_at)
			gmp_yield();
		CHECK_EQ(gmp_chan_send(results, &w->v), 0);
	}
	CHECK_EQ(gmp_wg_done(&workers_left), 0);
}

static void feed(void *arg)
{
	long n = *(long *)arg;

	for (long i = 0; i < n; i++) {
		sum_sent += primes[i % 10];
		put_int(queue, primes[i % 10]);
	}
	CHECK_EQ(gmp_chan_close(queue), 0);
	CHECK_EQ(gmp_wg_wait(&workers_left), 0);
	CHECK_EQ(gmp_chan_close(results), 0);
}

GO_MAIN(chan_23_consumers_lose_no_element)
{
	long n = check_scaled(271828), sum = 0, count = 0;
	struct worker w[WORKERS];
	int v;

	queue = make_ints(WORKERS * 3);
	results = make_ints(WORKERS * 3);
	CHECK_EQ(gmp_wg_add(&workers_left, WORKERS), 0);
	for (int i = 0; i < WORKERS; i++) {
		w[i].yields_at = primes[i % 10];
		go(work, &w[i]);
	}
	go(feed, &n);
	for (; gmp_chan_recv(results, &v) == 0; count++)
		sum += v;
	CHECK_EQ(count, n);
	CHECK_EQ(sum, sum_sent);
}
