/* SPDX-License-Identifier: MIT */
/*
 * Tests thousands of green threads that communicate by channels and selects: power series as
 * processes, after M. D. McIlroy's "Squinting at Power Series"; the intent is that of Go's
 * test/chan/powser1.go.
 *
 * A series is a pair of channels: a reader requests the next coefficient on `ask` and receives it
 * from `give`. A coefficient is computed only on request, so a series may be infinite, and may be
 * defined in terms of itself.
 */
#include "go_util.h"

/* --- rationals --- */

typedef struct {
	int64_t n, d; /* in lowest terms, d > 0; d = 0: the series has ended */
} rat;

static const rat end = { 0, 0 }, zero = { 0, 1 }, one = { 1, 1 };

static int64_t gcd(int64_t a, int64_t b)
{
	while (b) {
		int64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a < 0 ? -a : a;
}

static rat frac(int64_t n, int64_t d)
{
	int64_t g = gcd(n, d) * (d < 0 ? -1 : 1);

	CHECK(d != 0);
	return (rat){ n / g, d / g };
}

static rat plus(rat a, rat b)
{
	int64_t g = gcd(a.d, b.d);

	return frac(a.n * (b.d / g) + b.n * (a.d / g), a.d * (b.d / g));
}

static rat times(rat a, rat b)
{
	int64_t g = gcd(a.n, b.d), h = gcd(b.n, a.d);

	if (a.n == 0 || b.n == 0)
		return zero;
	return frac((a.n / g) * (b.n / h), (a.d / h) * (b.d / g));
}

static rat minus(rat a)
{
	return (rat){ -a.n, a.d };
}

static int is_end(rat a)
{
	return a.d == 0;
}

/* --- series --- */

struct series {
	gmp_chan *ask, *give;
};

static struct series new_series(void)
{
	return (struct series){ make_chan(0, 0), make_chan(sizeof(rat), 0) };
}

static rat get(struct series s)
{
	rat r;

	CHECK_EQ(gmp_chan_send(s.ask, NULL), 0);
	CHECK_EQ(gmp_chan_recv(s.give, &r), 0);
	return r;
}

/* Gets one coefficient of each, in any order. */
static void get_both(struct series u, struct series v, rat *out)
{
	struct series s[2] = { u, v };
	gmp_case cs[4];

	for (int i = 0; i < 2; i++) {
		cs[i] = GMP_SEND_CASE(s[i].ask, NULL);
		cs[2 + i] = GMP_RECV_CASE(NULL, &out[i]);
	}
	for (int steps = 0; steps < 4; steps++) {
		int ran = gmp_select(cs, 4);

		CHECK(ran >= 0 && cs[ran].status == 0);
		cs[ran].c = NULL;
		if (ran < 2)
			cs[2 + ran].c = s[ran].give;
	}
}

static void wait_request(struct series z)
{
	CHECK_EQ(gmp_chan_recv(z.ask, NULL), 0);
}

static void give(struct series z, rat r)
{
	CHECK_EQ(gmp_chan_send(z.give, &r), 0);
}

static void put(struct series z, rat r)
{
	wait_request(z);
	give(z, r);
}

static void finish(struct series z)
{
	for (;;)
		put(z, end);
}

static void copy(struct series u, struct series z)
{
	for (;;) {
		wait_request(z);
		give(z, get(u));
	}
}

/* Operands of a process. */
struct op {
	struct series u, v, z;
	rat c;
	int n;
	const rat *list;
};

static struct series process(gmp_fn fn, struct op o)
{
	struct op *p = make_memory(sizeof(*p));

	*p = o;
	p->z = new_series();
	go(fn, p);
	return p->z;
}

/* --- one series for two readers that read at different speeds --- */

struct splitter {
	struct series in, out[2];
};

static void do_split(void *arg)
{
	struct splitter *s = arg;
	rat *got = NULL;
	size_t n = 0, room = 0, at[2] = { 0, 0 };
	int wants[2] = { 0, 0 }, sent = 0;

	for (;;) {
		int hungry = 0;

		for (int i = 0; i < 2; i++) {
			if (wants[i] && at[i] < n) {
				give(s->out[i], got[at[i]++]);
				wants[i] = 0;
			}
			hungry |= wants[i];
		}
		if (n == room) {
			rat *more = make_memory(sizeof(rat) * (room = room ? 2 * room : 16));

			if (n)
				memcpy(more, got, n * sizeof(rat));
			got = more;
		}
		/* serve the other reader while a request is pending: the series may depend on it */
		gmp_case cs[] = {
			GMP_RECV_CASE(wants[0] ? NULL : s->out[0].ask, NULL),
			GMP_RECV_CASE(wants[1] ? NULL : s->out[1].ask, NULL),
			GMP_SEND_CASE(hungry && !sent ? s->in.ask : NULL, NULL),
			GMP_RECV_CASE(sent ? s->in.give : NULL, &got[n]),
		};
		int ran = gmp_select(cs, 4);

		CHECK(ran >= 0 && cs[ran].status == 0);
		if (ran < 2) {
			wants[ran] = 1;
		} else {
			sent = ran == 2;
			n += ran == 3;
		}
	}
}

struct pair {
	struct series a, b;
};

static struct pair new_pair(void)
{
	return (struct pair){ new_series(), new_series() };
}

static void split_into(struct series u, struct pair p)
{
	struct splitter *s = make_memory(sizeof(*s));

	*s = (struct splitter){ u, { p.a, p.b } };
	go(do_split, s);
}

static struct pair split(struct series u)
{
	struct pair p = new_pair();

	split_into(u, p);
	return p;
}

/* --- operations on coefficients --- */

static void do_rep(void *arg)
{
	struct op *o = arg;

	for (;;)
		put(o->z, o->c);
}

/* c + c x + c x^2 ... */
static struct series rep(rat c)
{
	return process(do_rep, (struct op){ .c = c });
}

static void do_poly(void *arg)
{
	struct op *o = arg;

	for (int i = 0; i < o->n; i++)
		put(o->z, o->list[i]);
	finish(o->z);
}

static struct series poly(const rat *list, int n)
{
	return process(do_poly, (struct op){ .list = list, .n = n });
}

static void do_add(void *arg)
{
	struct op *o = arg;
	rat r[2];

	for (;;) {
		wait_request(o->z);
		get_both(o->u, o->v, r);
		give(o->z, is_end(r[0]) ? r[1] : is_end(r[1]) ? r[0] : plus(r[0], r[1]));
	}
}

static struct series add(struct series u, struct series v)
{
	return process(do_add, (struct op){ .u = u, .v = v });
}

static void do_cmul(void *arg)
{
	struct op *o = arg;

	for (;;) {
		wait_request(o->z);
		rat r = get(o->u);

		give(o->z, is_end(r) ? end : times(o->c, r));
	}
}

static struct series cmul(rat c, struct series u)
{
	return process(do_cmul, (struct op){ .u = u, .c = c });
}

static struct series sub(struct series u, struct series v)
{
	return add(u, cmul(minus(one), v));
}

static void do_shift(void *arg)
{
	struct op *o = arg;

	put(o->z, o->c);
	copy(o->u, o->z);
}

/* c + x U */
static struct series shift(rat c, struct series u)
{
	return process(do_shift, (struct op){ .u = u, .c = c });
}

static void do_diff(void *arg)
{
	struct op *o = arg;

	wait_request(o->z);
	if (!is_end(get(o->u))) {
		for (int i = 1;; i++) {
			rat r = get(o->u);

			if (is_end(r))
				break;
			give(o->z, times(frac(i, 1), r));
			wait_request(o->z);
		}
	}
	give(o->z, end);
	finish(o->z);
}

static struct series diff(struct series u)
{
	return process(do_diff, (struct op){ .u = u });
}

static void do_integ(void *arg)
{
	struct op *o = arg;

	put(o->z, o->c);
	for (int i = 1;; i++) {
		wait_request(o->z);
		rat r = get(o->u);

		give(o->z, is_end(r) ? end : times(frac(1, i), r));
	}
}

static struct series integ(rat c, struct series u)
{
	return process(do_integ, (struct op){ .u = u, .c = c });
}

static void do_binom(void *arg)
{
	struct op *o = arg;
	rat term = one, c = o->c;

	for (int i = 1; c.n != 0; i++) {
		put(o->z, term);
		term = times(times(term, c), frac(1, i));
		c = plus(c, minus(one));
	}
	put(o->z, term);
	finish(o->z);
}

/* (1 + x)^c */
static struct series binom(rat c)
{
	return process(do_binom, (struct op){ .c = c });
}

static void do_monsubst(void *arg)
{
	struct op *o = arg;
	rat c = one;

	for (;;) {
		wait_request(o->z);
		rat r = get(o->u);

		if (is_end(r))
			break;
		give(o->z, times(c, r));
		c = times(c, o->c);
		for (int i = 1; i < o->n; i++)
			put(o->z, zero);
	}
	give(o->z, end);
	finish(o->z);
}

/* U(c x^n) */
static struct series monsubst(struct series u, rat c, int n)
{
	return process(do_monsubst, (struct op){ .u = u, .c = c, .n = n });
}

/* --- operations that build further series --- */

/* (u + x U')(v + x V') = uv + x (u V' + v U' + x U'V') */
static struct series mul(struct series u, struct series v);

static void do_mul(void *arg)
{
	struct op *o = arg;
	rat r[2];

	wait_request(o->z);
	get_both(o->u, o->v, r);
	if (is_end(r[0]) || is_end(r[1])) {
		give(o->z, end);
		finish(o->z);
	}
	give(o->z, times(r[0], r[1]));
	struct pair u = split(o->u), v = split(o->v);
	struct series w = add(cmul(r[0], v.a), cmul(r[1], u.a));

	wait_request(o->z);
	rat first = get(w);

	give(o->z, first);
	copy(is_end(first) ? w : add(w, mul(u.b, v.b)), o->z);
}

static struct series mul(struct series u, struct series v)
{
	return process(do_mul, (struct op){ .u = u, .v = v });
}

/* Z = 1/U: with U = u + x U' and Z = z + x Z', Z' = -z U' Z */
static void do_recip(void *arg)
{
	struct op *o = arg;

	wait_request(o->z);
	rat u = get(o->u), z = frac(u.d, u.n);
	struct pair p = new_pair();

	give(o->z, z);
	split_into(mul(cmul(minus(z), o->u), shift(z, p.a)), p);
	copy(p.b, o->z);
}

static struct series recip(struct series u)
{
	return process(do_recip, (struct op){ .u = u });
}

/* Z = exp U: Z' = Z U'; the constant term of U is taken as 0 */
static struct series expo(struct series u)
{
	struct pair p = new_pair();

	split_into(integ(one, mul(p.a, diff(u))), p);
	return p.b;
}

/* U(V): with U = u + x U', u + V U'(V); the constant term of V is taken as 0 */
static struct series subst(struct series u, struct series v);

static void do_subst(void *arg)
{
	struct op *o = arg;
	struct pair v = split(o->v);

	wait_request(o->z);
	rat u = get(o->u);

	give(o->z, u);
	if (is_end(u))
		finish(o->z);
	get(v.a);
	copy(mul(v.a, subst(o->u, v.b)), o->z);
}

static struct series subst(struct series u, struct series v)
{
	return process(do_subst, (struct op){ .u = u, .v = v });
}

/* Z with U(Z) = x: with U = x U', Z = x / U'(Z) */
static void do_reverse(void *arg)
{
	struct op *o = arg;
	struct pair r = new_pair();

	put(o->z, zero);
	wait_request(o->z);
	get(o->u);
	split_into(recip(subst(o->u, shift(zero, r.a))), r);
	give(o->z, get(r.b));
	copy(r.b, o->z);
}

static struct series reverse(struct series u)
{
	return process(do_reverse, (struct op){ .u = u });
}

/* --- checks --- */

#define N 10

static void check_series(struct series s, const rat *wanted, int n)
{
	for (int i = 0; i < n; i++) {
		rat r = get(s);

		if (r.n != wanted[i].n || r.d != wanted[i].d)
			check_failed("coefficient %d is %lld/%lld, not %lld/%lld", i,
				     (long long)r.n, (long long)r.d, (long long)wanted[i].n,
				     (long long)wanted[i].d);
	}
}

static void check_all(struct series s, rat c)
{
	for (int i = 0; i < N; i++)
		check_series(s, &c, 1);
}

GO_MAIN(powser_sums_and_multiples_are_right)
{
	static const rat two = { 2, 1 };

	check_all(rep(one), one);
	check_all(add(rep(one), rep(two)), frac(3, 1));
	check_all(cmul(minus(one), rep(two)), frac(-2, 1));
	check_all(sub(rep(one), rep(two)), minus(one));
	check_all(sub(rep(one), rep(one)), zero);
	/* a finite and an infinite series, and two finite series */
	static const rat some[] = { { 1, 1 }, { 1, 2 }, { 1, 3 } };
	static const rat sum[] = { { 3, 1 }, { 5, 2 }, { 7, 3 }, { 2, 1 }, { 2, 1 } };
	static const rat doubled[] = { { 2, 1 }, { 1, 1 }, { 2, 3 }, { 0, 0 }, { 0, 0 } };

	check_series(add(poly(some, 3), rep(two)), sum, 5);
	check_series(add(rep(two), poly(some, 3)), sum, 5);
	check_series(add(poly(some, 3), poly(some, 3)), doubled, 5);
}

GO_MAIN(powser_derivatives_and_integrals_are_right)
{
	rat d[N], in[N] = { zero };

	for (int i = 0; i < N; i++) {
		d[i] = frac(i + 1, 1);
		if (i)
			in[i] = frac(1, i);
	}
	check_series(diff(rep(one)), d, N);
	check_series(integ(zero, rep(one)), in, N);
	check_all(diff(integ(frac(7, 3), rep(one))), one);
	/* atan: the integral of 1 / (1 + x^2) */
	struct series atan = integ(zero, monsubst(rep(one), minus(one), 2));

	for (int i = 0; i < N; i++)
		in[i] = i % 2 ? frac(i % 4 == 1 ? 1 : -1, i) : zero;
	check_series(atan, in, N);
	static const rat some[] = { { 5, 1 }, { 3, 1 }, { 1, 2 } };
	static const rat derived[] = { { 3, 1 }, { 1, 1 }, { 0, 0 }, { 0, 0 } };

	check_series(diff(poly(some, 3)), derived, 4);
}

GO_MAIN(powser_products_and_reciprocals_are_right)
{
	static const rat unit[N] = { { 1, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 },
				     { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 } };
	rat squares[N];

	for (int i = 0; i < N; i++)
		squares[i] = frac(i + 1, 1);
	check_series(mul(rep(one), rep(one)), squares, N);
	check_series(mul(rep(one), recip(rep(one))), unit, N);
	check_series(recip(recip(diff(rep(one)))), squares, N);
	/* (1 + x)^5 (1 + x)^-5, by the binomial theorem */
	static const rat fifth[] = { { 1, 1 }, { 5, 1 }, { 10, 1 }, { 10, 1 },
				     { 5, 1 }, { 1, 1 }, { 0, 0 } };

	check_series(binom(frac(5, 1)), fifth, 7);
	check_series(mul(binom(frac(5, 1)), binom(frac(-5, 1))), unit, N);
	/* the square of a square root */
	static const rat one_plus_x[N] = { { 1, 1 }, { 1, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 },
					   { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 } };

	check_series(mul(binom(frac(1, 2)), binom(frac(1, 2))), one_plus_x, N);
	/* two finite series */
	static const rat a[] = { { 1, 1 }, { 2, 1 } }, b[] = { { 3, 1 }, { 1, 1 }, { 5, 1 } };
	static const rat ab[] = { { 3, 1 }, { 7, 1 }, { 7, 1 }, { 10, 1 } };

	check_series(mul(poly(a, 2), poly(b, 3)), ab, 4);
}

GO_MAIN(powser_exponentials_are_right)
{
	static const rat x[] = { { 0, 1 }, { 1, 1 } };
	static const rat of_ones[N] = {
		{ 1, 1 },    { 1, 1 },      { 3, 2 },        { 13, 6 },       { 73, 24 },
		{ 167, 40 }, { 4051, 720 }, { 37633, 5040 }, { 43817, 4480 }, { 4596553, 362880 },
	};
	rat e[N];
	int64_t factorial = 1;

	for (int i = 0; i < N; i++) {
		e[i] = frac(1, factorial);
		factorial *= i + 1;
	}
	check_series(expo(poly(x, 2)), e, N);
	check_series(expo(rep(one)), of_ones, SLOW ? 7 : N);
	/* exp log (1 + x) */
	static const rat one_plus_x[] = { { 1, 1 }, { 1, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 } };

	check_series(expo(integ(zero, recip(binom(one)))), one_plus_x, 5);
}

GO_MAIN(powser_substitution_and_reversal_are_right)
{
	static const rat x_minus_xx[] = { { 0, 1 }, { 1, 1 }, { -1, 1 } };
	static const rat fibonacci[] = { { 1, 1 }, { 1, 1 }, { 2, 1 }, { 3, 1 },
					 { 5, 1 }, { 8, 1 }, { 13, 1 } };
	static const rat catalan[] = { { 0, 1 }, { 1, 1 },  { 1, 1 }, { 2, 1 },
				       { 5, 1 }, { 14, 1 }, { 42, 1 } };
	static const rat tangent[N] = { { 0, 1 },  { 1, 1 }, { 0, 1 },    { 1, 3 }, { 0, 1 },
					{ 2, 15 }, { 0, 1 }, { 17, 315 }, { 0, 1 }, { 62, 2835 } };
	static const rat x_plus_xx[] = { { 0, 1 }, { 1, 1 }, { 1, 1 } };

	check_series(subst(rep(one), poly(x_plus_xx, 3)), fibonacci, 7);
	check_series(reverse(poly(x_minus_xx, 3)), catalan, 7);
	check_series(reverse(integ(zero, monsubst(rep(one), minus(one), 2))), tangent,
		     SLOW ? 8 : N);
}
