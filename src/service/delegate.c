/* SPDX-License-Identifier: MIT */
#include "service/delegate.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "service/service.h"

enum state { SENT, BEGUN, GIVEN_UP };

struct copy {
	void (*fn)(void *arg);
	uint32_t state; /* atomic */
	uint64_t run;
	struct copy *next;
	_Alignas(max_align_t) char arg[];
};

/* E2: one of the two leaves SENT. */
static bool leave_sent(struct copy *c, uint32_t to)
{
	uint32_t sent = SENT;

	return cas_rlx(&c->state, &sent, to);
}

static void run_errand(void *arg)
{
	struct copy *c = arg;

	if (leave_sent(c, BEGUN))
		c->fn(c->arg);
}

/* E3 */
static void keep(struct copy *c)
{
	static pthread_mutex_t lock =
		PTHREAD_MUTEX_INITIALIZER; /* external threads only come here */
	static struct copy *kept;

	pthread_mutex_lock(&lock);
	for (struct copy **at = &kept, *old; (old = *at);) {
		if (old->run == c->run) {
			at = &old->next;
		} else {
			*at = old->next;
			free(old);
		}
	}
	c->next = kept;
	kept = c;
	pthread_mutex_unlock(&lock);
}

static int send_and_join(struct copy *c, const char *name)
{
	gmp_attr attr = GMP_ATTR_INIT;
	gmp_g *g;

	attr.name = name;
	int err = gmp_spawn(&g, run_errand, c, &attr);

	if (err) {
		free(c);
		return err;
	}
	err = gmp_join(g);
	if (err) {
		leave_sent(c, GIVEN_UP);
		keep(c);
	}
	return err;
}

int errand(void (*fn)(void *arg), void *arg, size_t n, const char *name)
{
	struct copy *c = malloc(sizeof(*c) + n);

	if (!c)
		return -ENOMEM;
	c->fn = fn;
	c->state = SENT;
	c->run = gmp_run_id();
	memcpy(c->arg, arg, n);
	int err = send_and_join(c, name);

	if (!err) {
		memcpy(arg, c->arg, n);
		free(c);
	}
	return err;
}
