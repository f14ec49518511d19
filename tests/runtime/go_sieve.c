/* SPDX-License-Identifier: MIT */
/* Do chains of filters that grow as they run give the primes?  The intent of Go's test/chan/
 * sieve1.go (every channel a rendezvous) and sieve2.go (buffers of several sizes). */
#include "go_util.h"

static size_t buffers[8];
static int selects; /* pass on by a select that could also stop */
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

/* What its prime does not divide goes on; so does the end. */
static void sift(void *arg)
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

static void sieve(int how_many)
{
	gmp_chan *c = make_ints(buffers[0]);
	int expected = 2;

	stop = make_ints(0);
	go(count_up, c);
	for (int i = 0; i < how_many; i++) {
		struct filter *f = make_memory(sizeof(*f));

		*f = (struct filter){ c, make_ints(buffers[(i + 1) % 8]), get_int(c) };
		CHECK_EQ(f->prime, expected);
		do
			expected++;
		while (!is_prime(expected));
		go(sift, f);
		c = f->out;
	}
	CHECK_EQ(gmp_chan_close(stop), 0);
	while (gmp_chan_recv(c, NULL) == 0)
		;
	WAIT_FOR(stats().greens == 1);
}

GO_MAIN(a_chain_of_rendezvous_sifts_the_primes)
{
	memset(buffers, 0, sizeof(buffers));
	selects = 0;
	sieve((int)check_scaled(200));
	selects = 1;
	sieve((int)check_scaled(200));
}

GO_MAIN(a_chain_of_buffers_sifts_the_primes)
{
	static const size_t some[8] = { 50, 0, 1, 10, 0, 3, 100, 2 };

	memcpy(buffers, some, sizeof(buffers));
	selects = 0;
	sieve((int)check_scaled(300));
	selects = 1;
	sieve((int)check_scaled(300));
}

/* The run is over when the last prime wanted is known; the chain is dropped as it stands. */
GO_MAIN(a_chain_may_be_left_standing)
{
	gmp_chan *c = make_ints(0);

	stop = NULL;
	go(count_up, c);
	for (int i = 0; i < 50; i++) {
		struct filter *f = make_memory(sizeof(*f));

		*f = (struct filter){ c, make_ints((size_t)i % 3), get_int(c) };
		CHECK(is_prime(f->prime));
		go(sift, f);
		c = f->out;
	}
	CHECK_EQ(get_int(c), 233);
}
