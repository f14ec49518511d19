/* SPDX-License-Identifier: MIT */
/*
 * Tests prime sieves, which are growing chains of filters; the intent is that of Go's
 * test/chan/sieve1.go (unbuffered channels) and sieve2.go (buffers of several sizes).
 */
#include "go_util.h"

static size_t buffers[8];
static int selects; /* send by a select that also receives from `stop` */
static gmp_chan *stop;

static void count_up(void *arg)
{
	for (int i = 2;; i++) {
		gmp_case cs[] = { GMP_SEND_CASE((gmp_chan *)arg, &i), GMP_RECV_CASE(stop, NULL) };

		if (gmp_select(cs, 2) == 1)
			break;
	}
	CHECK_EQ(gmp_chan_close(arg), 0);
}

struct filter {
	gmp_chan *in, *out;
	int prime;
};

/* Passes on the numbers that its prime does not divide, and the close. */
static void filter_multiples(void *arg)
{
	struct filter *f = arg;
	int v, stopped = 0;

	while (gmp_chan_recv(f->in, &v) == 0) {
		gmp_case cs[] = { GMP_SEND_CASE(f->out, &v), GMP_RECV_CASE(stop, NULL) };

		if (v % f->prime == 0 || stopped)
			continue;
		if (selects)
			stopped = gmp_select(cs, 2) == 1;
		else
			CHECK_EQ(gmp_chan_send(f->out, &v), 0);
	}
	CHECK_EQ(gmp_chan_close(f->out), 0);
}

static int is_prime(int n)
{
	for (int d = 2; d * d <= n; d++)
		if (n % d == 0)
			return 0;
	return n > 1;
}

static void sieve(int count)
{
	gmp_chan *c = make_ints(buffers[0]);
	int expected = 2;

	stop = make_ints(0);
	go(count_up, c);
	for (int i = 0; i < count; i++) {
		struct filter *f = make_memory(sizeof(*f));

		*f = (struct filter){ c, make_ints(buffers[(i + 1) % 8]), get_int(c) };
		CHECK_EQ(f->prime, expected);
		do
			expected++;
		while (!is_prime(expected));
		go(filter_multiples, f);
		c = f->out;
	}
	CHECK_EQ(gmp_chan_close(stop), 0);
	while (gmp_chan_recv(c, NULL) == 0)
		;
	WAIT_FOR(stats().greens == 1);
}

GO_MAIN(sieve_of_unbuffered_chans_yields_primes)
{
	memset(buffers, 0, sizeof(buffers));
	selects = 0;
	sieve((int)check_scaled(200));
	selects = 1;
	sieve((int)check_scaled(200));
}

GO_MAIN(sieve_of_buffered_chans_yields_primes)
{
	static const size_t sizes[8] = { 50, 0, 1, 10, 0, 3, 100, 2 };

	memcpy(buffers, sizes, sizeof(buffers));
	selects = 0;
	sieve((int)check_scaled(300));
	selects = 1;
	sieve((int)check_scaled(300));
}

/* The run ends with the last prime wanted, while the filters wait. */
GO_MAIN(sieve_still_waiting_is_killed_at_shutdown)
{
	gmp_chan *c = make_ints(0);

	stop = NULL;
	go(count_up, c);
	for (int i = 0; i < 50; i++) {
		struct filter *f = make_memory(sizeof(*f));

		*f = (struct filter){ c, make_ints((size_t)i % 3), get_int(c) };
		CHECK(is_prime(f->prime));
		go(filter_multiples, f);
		c = f->out;
	}
	CHECK_EQ(get_int(c), 233);
}
