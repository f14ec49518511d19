/* SPDX-License-Identifier: MIT */
/* A channel is freed while a select waits on it: fatal error. */
#include "culprit.h"

static gmp_chan *a, *b;

static void selector(void *arg)
{
	gmp_case cs[] = { GMP_RECV_CASE(a, NULL), GMP_RECV_CASE(b, NULL) };

	(void)arg;
	gmp_select(cs, 2);
}

static void culprit(void *arg)
{
	(void)arg;
	gmp_yield(); /* on the only P the select waits now */
	gmp_chan_free(b);
}

static void app(void *arg)
{
	(void)arg;
	a = gmp_chan_new(sizeof(int), 0);
	b = gmp_chan_new(sizeof(int), 0);
	gmp_go(selector, NULL);
	gmp_yield();
	run_culprit(culprit);
}

int main(void)
{
	return run_on_one_p(app);
}
