/* SPDX-License-Identifier: MIT */
/* The call, its two-sided state, and the list of abandoned calls. */
#include "service/delegate.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "service/service.h"

/* Leaves DELEGATE_SENT once, by compare-and-swap, and does not change after that. */
enum delegate_state {
	DELEGATE_SENT = 0,
	DELEGATE_BEGUN = 1,     /* set by the G: it calls wait */
	DELEGATE_ABANDONED = 2, /* set by the caller, whose join has failed */
};

struct delegate_call {
	wait_fn wait;
	void *object;
	int64_t deadline;
	int result;
	uint32_t state; /* (a) enum delegate_state */
	uint64_t run;
	struct delegate_call *next;
};

/* DELEGATE-2. Returns false if the other side has decided. */
static bool decide(struct delegate_call *c, uint32_t to)
{
	uint32_t sent = DELEGATE_SENT;

	return cas_rlx(&c->state, &sent, to);
}

static void delegate_main(void *arg)
{
	struct delegate_call *c = arg;

	if (decide(c, DELEGATE_BEGUN))
		c->result = c->wait(c->object, c->deadline);
}

/* DELEGATE-3. Takes over c, and frees the calls of other runs. */
static void delegate_keep(struct delegate_call *c)
{
	/* no G calls this */
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static struct delegate_call *kept;

	pthread_mutex_lock(&mutex);
	for (struct delegate_call **at = &kept, *old; (old = *at);) {
		if (old->run == c->run) {
			at = &old->next;
		} else {
			*at = old->next;
			free(old);
		}
	}
	c->next = kept;
	kept = c;
	pthread_mutex_unlock(&mutex);
}

/* Frees c, or keeps it, unless it returns 0. */
static int send_and_join(struct delegate_call *c)
{
	gmp_attr attr = GMP_ATTR_INIT;
	gmp_g *g;

	attr.name = "waits for an external thread";
	int err = gmp_spawn(&g, delegate_main, c, &attr);

	if (err) {
		free(c);
		return err;
	}
	err = gmp_join(g);
	if (err) {
		decide(c, DELEGATE_ABANDONED);
		delegate_keep(c);
	}
	return err;
}

bool delegate(wait_fn wait, void *object, int64_t deadline, int *result)
{
	if (gmp_self()) {
		*result = wait(object, deadline);
		return true;
	}
	struct delegate_call *c = malloc(sizeof(*c));

	*result = -ENOMEM;
	if (!c)
		return false;
	*c = (struct delegate_call){
		.wait = wait, .object = object, .deadline = deadline, .run = gmp_run_id()
	};
	*result = send_and_join(c);
	if (*result)
		return *result == -ESRCH;
	*result = c->result;
	free(c);
	return true;
}
