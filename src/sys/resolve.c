/* SPDX-License-Identifier: MIT */
/*
 * gmp_getaddrinfo: each lookup runs in a helper G, so that its caller can give up.
 *
 * The resolver of libc may block for half a minute and cannot be interrupted.  The helper calls it
 * in a blocking section; the caller waits as long as it wants.  Both share a struct lookup with
 * copies of the arguments.
 *
 *   caller                                          helper
 *    1 link the lookup into the list                 1 begin a blocking section
 *    2 get a slot, or wait for one; start helper     2 getaddrinfo
 *    3 wait for `done`, until the deadline           3 release the slot
 *    4 under the lock: finished?  take the result    4 under the lock: set finished; abandoned?
 *      and free the lookup; otherwise set              free the lookup; otherwise release `done`
 *      abandoned                                     5 end the blocking section
 *
 * No helper is started if no lookup is needed: a host in digits, or none.
 *
 * Invariants
 *   -          A lookup is freed once: by the caller if it reads finished, by the helper if it
 *              reads abandoned, otherwise (one of them was killed at shutdown) by resolve_fini.
 *   RESOLVE-2  At most `most` helpers are in getaddrinfo, half of max_threads and 5,000 at most, so
 *              that silent name servers do not take all OS threads from file calls and other
 *              blocking sections.
 *   RESOLVE-3  All that a helper does for its caller is inside its blocking section, and the end of
 *              a run waits for that.  So only a helper that has not begun leaves a caller without
 *              an answer.  Green callers are killed too; external ones re-check the state of the
 *              run.
 *
 * The C libraries differ: musl asks all name servers at once, for 5 s, and knows no name services
 * besides /etc/hosts and DNS; glibc asks one server after the other, and loads modules.
 */
#include "sys/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "base/dlist.h"
#include "enter.h"
#include "park.h"
#include "spawn.h"

#ifndef EAI_CANCELED
#define EAI_CANCELED EAI_AGAIN
#endif

/* Bytes of stack for getaddrinfo; ns between two checks of an external caller (RESOLVE-3). */
enum { LOOKUP_STACK = 256 * 1024, RECHECK_NS = 10 * MS };

struct lookup {
	struct addrinfo hints, *res;
	const struct addrinfo *hinted; /* NULL: none given */
	char *host, *service;
	int err;
	bool finished, abandoned; /* under the lock */
	gmp_sem done;
	struct lookup *next, **at; /* under the lock */
};

static struct {
	struct lock lock;
	struct lookup *first; /* all lookups */
	gmp_sem slots;
} resolver;

void resolve_init(int most)
{
	resolver.slots = (gmp_sem)GMP_SEM_INIT(most);
}

/* --- lookups --- */

/* A lookup with copies of the arguments; NULL: no memory. */
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

void resolve_fini(void)
{
	struct lookup *l;

	while ((l = resolver.first)) {
		dlist_del(l);
		lookup_free(l);
	}
}

void resolve_forget(void)
{
	resolver.lock = (struct lock){ 0 };
	resolver.first = NULL;
}

/* --- helper --- */

/* Step 4 of the helper. */
static void lookup_finish(struct lookup *l)
{
	lock(&resolver.lock, LR_NAMES);
	bool alone = l->abandoned;

	l->finished = true;
	if (alone)
		dlist_del(l);
	else
		gmp_sem_release(&l->done, 1); /* under the lock: the caller may free l after that */
	unlock(&resolver.lock, LR_NAMES);
	if (alone)
		lookup_free(l);
}

/* Entry function of the helper. */
static void lookup_run(void *arg)
{
	struct lookup *l = arg;

	gmp_block_enter();
	do
		l->err = getaddrinfo(l->host, l->service, l->hinted, &l->res);
	while (l->err == EAI_SYSTEM && errno == EINTR);
	if (l->err)
		l->res = NULL;
	gmp_sem_release(&resolver.slots, 1);
	lookup_finish(l);
	gmp_block_leave();
}

/* --- caller --- */

/* Acquire s.  An external thread re-checks whether the runtime still runs (RESOLVE-3). */
static int sem_await(gmp_sem *s, int64_t deadline)
{
	int err;

	if (getm())
		return gmp_sem_acquire_until(s, deadline);
	do
		err = gmp_sem_acquire_until(s, min_of(deadline, gmp_deadline(RECHECK_NS)));
	while (err == -ETIMEDOUT && gmp_now() < deadline &&
	       ld_seq(&sched.state) == RUN_ON); /* ORD(external) */
	return err;
}

/* The EAI_ code for -errno. */
static int eai_of(int err)
{
	switch (err) {
	case -ECANCELED: return EAI_CANCELED;
	case -ENOMEM: return EAI_MEMORY;
	default: return EAI_AGAIN;
	}
}

/* Step 4 of the caller.  err: the result of the wait. */
static int lookup_take(struct lookup *l, int err, struct addrinfo **res)
{
	lock(&resolver.lock, LR_NAMES);
	bool finished = l->finished;

	if (finished)
		dlist_del(l);
	else
		l->abandoned = true;
	unlock(&resolver.lock, LR_NAMES);
	if (!finished)
		return eai_of(err);
	int result = l->err;

	if (!result)
		*res = l->res;
	free(l);
	return result;
}

/* Step 2 of the caller. */
static int lookup_begin(struct lookup *l, int64_t deadline)
{
	int err = too_late(deadline);

	if (!err && self_cancelled())
		err = -ECANCELED;
	if (!err)
		err = sem_await(&resolver.slots, deadline);
	if (err)
		return err;
	err = green_start(lookup_run, l, "lookup", LOOKUP_STACK);
	if (err)
		gmp_sem_release(&resolver.slots, 1);
	return err;
}

static int lookup_until(const char *host, const char *service, const struct addrinfo *hints,
			struct addrinfo **res, int64_t deadline)
{
	struct lookup *l = lookup_new(host, service, hints);

	if (!l)
		return EAI_MEMORY;
	lock(&resolver.lock, LR_NAMES);
	dlist_add(&resolver.first, l);
	unlock(&resolver.lock, LR_NAMES);
	int err = lookup_begin(l, deadline);

	if (err) {
		lock(&resolver.lock, LR_NAMES);
		dlist_del(l);
		unlock(&resolver.lock, LR_NAMES);
		free(l);
		return eai_of(err);
	}
	return lookup_take(l, sem_await(&l->done, deadline), res);
}

/* True if neither host nor service needs a lookup. */
static bool is_numeric(const char *host, const char *service)
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
	int result = is_numeric(host, service) ? getaddrinfo(host, service, hints, res)
					       : lookup_until(host, service, hints, res, deadline);

	rt_leave();
	return result;
}

int gmp_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		    struct addrinfo **res)
{
	return gmp_getaddrinfo_until(host, service, hints, res, NEVER);
}
