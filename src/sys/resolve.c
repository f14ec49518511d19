/* SPDX-License-Identifier: MIT */
/*
 * How is a name looked up when libc's resolver may be silent for half a minute, and cannot be stopped?
 *
 * By a green thread of its own, in blocking code; the caller waits for it as long as it likes.  What
 * both use lies in a struct lookup, with copies of the arguments.
 *
 *   the caller                                      the helper
 *    1 the lookup into the list                      1 blocking code begins
 *    2 a slot, or wait for one; start the helper     2 getaddrinfo
 *    3 wait for `done`, until the deadline           3 the slot is free again
 *    4 under the lock: finished? take the result     4 under the lock: finished; abandoned? free it,
 *      and free it; else abandon it                    else `done` is released
 *                                                    5 blocking code ends
 *
 * There is no helper where the answer needs no looking up: a host in digits, or none.
 *
 * Invariants
 *  I1 A lookup is freed once: by the caller if it saw it finished, by the helper if it saw it
 *     abandoned, else (either was dropped at the end of a run) by names_fini.
 *  I2 At most `most` helpers are in getaddrinfo, which is half of max_threads: silent name servers do
 *     not take all threads from files and the program's own blocking code.
 *  I3 All that a helper does for others is inside its blocking code, which the end of a run awaits.  So
 *     only one that never began fails a caller; green callers are dropped then, too, and external ones
 *     look up now and then.
 */
#include "sys/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "park.h"

#ifndef EAI_CANCELED
#define EAI_CANCELED EAI_AGAIN
#endif

enum { LOOKUP_STACK = 256 * 1024, LOOK_NS = 10000000 };

struct lookup {
	struct addrinfo hints, *res;
	const struct addrinfo *hinted; /* NULL: none given */
	char *host, *service;
	int err;
	bool finished, abandoned; /* under the lock */
	gmp_sem done;
	struct lookup *link, **from; /* under the lock */
};

static struct {
	struct lock lock;
	struct lookup *first; /* all there are */
	gmp_sem slots;
} names;

void names_init(int most)
{
	names.slots = (gmp_sem)GMP_SEM_INIT(most);
}

/* --- the list; under the lock --- */

static void enlist(struct lookup *l)
{
	l->link = names.first;
	l->from = &names.first;
	if (l->link)
		l->link->from = &l->link;
	names.first = l;
}

static void unlist(struct lookup *l)
{
	*l->from = l->link;
	if (l->link)
		l->link->from = l->from;
}

/* --- what both use --- */

static struct lookup *lookup_new(const char *host, const char *service,
				 const struct addrinfo *hints)
{
	size_t h = host ? strlen(host) + 1 : 0, s = service ? strlen(service) + 1 : 0;
	struct lookup *l = calloc(1, sizeof(*l) + h + s);

	if (!l)
		return NULL;
	char *text = (char *)(l + 1);

	if (h)
		l->host = memcpy(text, host, h);
	if (s)
		l->service = memcpy(text + h, service, s);
	if (hints) {
		l->hints = *hints;
		l->hinted = &l->hints;
	}
	return l;
}

static void lookup_free(struct lookup *l)
{
	if (l->res)
		freeaddrinfo(l->res);
	free(l);
}

void names_fini(void)
{
	struct lookup *l;

	while ((l = names.first)) {
		unlist(l);
		lookup_free(l);
	}
}

void names_forget(void)
{
	names.lock = (struct lock){ 0 };
	names.first = NULL;
}

/* --- the helper --- */

static void finish(struct lookup *l)
{
	lock(&names.lock, LR_NAMES);
	bool alone = l->abandoned;

	l->finished = true;
	if (alone)
		unlist(l);
	else
		gmp_sem_release(&l->done, 1); /* under the lock: then the caller may free it */
	unlock(&names.lock, LR_NAMES);
	if (alone)
		lookup_free(l);
}

static void look_up(void *arg)
{
	struct lookup *l = arg;

	gmp_block_enter();
	do
		l->err = getaddrinfo(l->host, l->service, l->hinted, &l->res);
	while (l->err == EAI_SYSTEM && errno == EINTR);
	if (l->err)
		l->res = NULL;
	gmp_sem_release(&names.slots, 1);
	finish(l);
	gmp_block_leave();
}

static int start_helper(struct lookup *l)
{
	gmp_attr attr = GMP_ATTR_INIT;
	gmp_g *g;

	attr.name = "lookup";
	attr.stack_size = LOOKUP_STACK;
	int err = gmp_spawn(&g, look_up, l, &attr);

	if (!err)
		gmp_detach(
			g); /* fails when the run has just ended: then it is dropped, or has run */
	return err;
}

/* --- the caller --- */

/* An external thread may wait for one that was dropped at the end of the run. */
static int await(gmp_sem *s, int64_t deadline)
{
	int err;

	if (getm())
		return gmp_sem_acquire_until(s, deadline);
	do
		err = gmp_sem_acquire_until(s, min_of(deadline, gmp_deadline(LOOK_NS)));
	while (err == -ETIMEDOUT && gmp_now() < deadline &&
	       ld_seq(&sched.state) == RUN_ON); /* ORD(external) */
	return err;
}

static int why_not(int err)
{
	switch (err) {
	case -ECANCELED: return EAI_CANCELED;
	case -ENOMEM: return EAI_MEMORY;
	default: return EAI_AGAIN;
	}
}

/* Step 4, when the wait has ended with err. */
static int take(struct lookup *l, int err, struct addrinfo **res)
{
	lock(&names.lock, LR_NAMES);
	bool finished = l->finished;

	if (finished)
		unlist(l);
	else
		l->abandoned = true;
	unlock(&names.lock, LR_NAMES);
	if (!finished)
		return why_not(err);
	int result = l->err;

	if (!result)
		*res = l->res;
	free(l);
	return result;
}

static int begin(struct lookup *l, int64_t deadline)
{
	int err = too_late(deadline);

	if (!err && self_cancelled())
		err = -ECANCELED;
	if (!err)
		err = await(&names.slots, deadline);
	if (err)
		return err;
	err = start_helper(l);
	if (err)
		gmp_sem_release(&names.slots, 1);
	return err;
}

static int look_up_until(const char *host, const char *service, const struct addrinfo *hints,
			 struct addrinfo **res, int64_t deadline)
{
	struct lookup *l = lookup_new(host, service, hints);

	if (!l)
		return EAI_MEMORY;
	lock(&names.lock, LR_NAMES);
	enlist(l);
	unlock(&names.lock, LR_NAMES);
	int err = begin(l, deadline);

	if (err) {
		lock(&names.lock, LR_NAMES);
		unlist(l);
		unlock(&names.lock, LR_NAMES);
		free(l);
		return why_not(err);
	}
	return take(l, await(&l->done, deadline), res);
}

/* Nobody has to be asked. */
static bool in_digits(const char *host, const char *service)
{
	struct in6_addr any;

	if (service && service[strspn(service, "0123456789")])
		return false;
	return !host || inet_pton(AF_INET, host, &any) == 1 || inet_pton(AF_INET6, host, &any) == 1;
}

int gmp_getaddrinfo_until(const char *host, const char *service, const struct addrinfo *hints,
			  struct addrinfo **res, int64_t deadline)
{
	if (!res)
		return EAI_NONAME;
	if (!rt_enter())
		return EAI_AGAIN;
	int result = in_digits(host, service) ? getaddrinfo(host, service, hints, res)
					      : look_up_until(host, service, hints, res, deadline);

	rt_leave();
	return result;
}

int gmp_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		    struct addrinfo **res)
{
	return gmp_getaddrinfo_until(host, service, hints, res, NEVER);
}
