/* SPDX-License-Identifier: MIT */
/*
 * Compares generations of the scheduler by a prime sieve.
 *
 * The claim: with one locked queue for all Ps (Go 1.0), a second processor makes programs of many
 * short waits slower.  Local queues and stealing (Go 1.1) make it useful.  A runnext (Go 1.5) makes
 * hand-overs cheap again.  An OS thread for each green thread is slower than any of these.
 *
 * The sieve is a chain of green threads, one for each prime, each behind an unbuffered channel.
 * GMP_SCHED chooses the generation.  Each number is sent along the chain up to the first prime that
 * divides it, so the number of messages is known beforehand.  Each prime is checked.
 */
#include "exp.h"

static const char usage[] = "exp-sieve PRIMES PROCS";

static int primes;

struct filter {
	gmp_chan *in, *out;
	int prime;
};

static void count_up(void *arg)
{
	for (int i = 2; gmp_chan_send(arg, &i) == 0; i++)
		;
}

static void sift(void *arg)
{
	struct filter *f = arg;

	for (int v; gmp_chan_recv(f->in, &v) == 0;)
		if (v % f->prime && gmp_chan_send(f->out, &v))
			break;
}

static int is_prime(int n)
{
	for (int d = 2; d * d <= n; d++)
		if (n % d == 0)
			return 0;
	return n > 1;
}

/* Returns the number of messages for all numbers up to the last prime. */
static int64_t messages(const struct filter *chain)
{
	int64_t n = 0;

	for (int v = 2; v <= chain[primes - 1].prime; v++) {
		int k = 0;

		while (v % chain[k].prime)
			k++;
		n += k + 1;
	}
	return n;
}

static void app(void *arg)
{
	struct filter *chain = calloc((size_t)primes, sizeof(*chain));
	gmp_chan *c = exp_chan(sizeof(int), 0);
	int64_t t0, t1, cpu;
	int expected = 2;

	(void)arg;
	exp_check(chain, "no memory");
	cpu = exp_cpu();
	t0 = exp_clock();
	exp_go(count_up, c);
	for (int i = 0; i < primes; i++) {
		chain[i] = (struct filter){ c, exp_chan(sizeof(int), 0), 0 };
		exp_check(gmp_chan_recv(c, &chain[i].prime) == 0, "gmp_chan_recv");
		exp_check(chain[i].prime == expected, "%d is no prime", chain[i].prime);
		do
			expected++;
		while (!is_prime(expected));
		exp_go(sift, &chain[i]);
		c = chain[i].out;
	}
	t1 = exp_clock();
	cpu = exp_cpu() - cpu;

	gmp_stats s = GMP_STATS_INIT;
	double n = (double)messages(chain);

	gmp_stats_get(&s);
	exp_figure("time", "ms", (double)(t1 - t0) / 1e6);
	exp_figure("message", "ns", (double)(t1 - t0) / n);
	exp_figure("cpu", "ns", (double)cpu / n);
	exp_figure("steals", "per_message", (double)s.steals / n);
	exp_figure("sleeps", "per_message", (double)s.parks / n);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	primes = exp_count(argc, argv, 1, usage);
	exp_run(app, exp_count(argc, argv, 2, usage));
	return 0;
}
