/* SPDX-License-Identifier: MIT */
/*
 * Sharded one-time event: thousands of selects wait for it without contention at one lock.
 *
 * The event is the close of a channel, so select needs no case of its own.  Ps whose numbers are
 * equal modulo SHARDS share a channel, created at the first gmp_done_chan on one of them, so that
 * watchers on different Ps lock different channels.
 *
 *   done ──> set
 *            shard[0] ──> channel: watchers on Ps 0, 64, ..., and external threads
 *            shard[1] ──> channel: watchers on Ps 1, 65, ...
 *
 * State word `set`
 *   UNSET    the event has not happened
 *   SETTING  it has happened; gmp_done_set still closes the shards.  Set under the lock.
 *   SET      the shards are closed.  Stored without the lock; only gmp_done_free changes it.
 *   FREED    gmp_done_free was called.  The object exists only while a gmp_done_set closes shards.
 *
 * Invariants
 *   DONE-1  A shard is created, and `set` becomes SETTING, under the lock.  So each shard is either
 *           closed by gmp_done_set or would be created after it; gmp_done_chan then returns shard 0
 *           instead.
 *   -       Shard 0 exists from gmp_done_new on.
 *   DONE-2  Lifetime: gmp_done_free exchanges `set` for FREED, the end of gmp_done_set for SET.
 *           gmp_done_set releases the object if it finds FREED, gmp_done_free unless it finds
 *           SETTING.  Neither waits: the kernel may have descheduled the thread of the other.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/lock.h"
#include "base/mem.h"
#include "base/object.h"
#include "base/throw.h"
#include "chan.h"
#include "types.h"
#include "variant/variant.h"

enum { SHARDS = 64 };
enum done_state { UNSET = 0, SETTING = 1, SET = 2, FREED = 3 };

struct gmp_done {
	struct lock lock;
	uint32_t kind;           /* enum object_kind */
	uint32_t set;            /* (a) enum done_state */
	gmp_chan *shard[SHARDS]; /* (a) set once, under the lock; shard 0: by gmp_done_new */
};

static gmp_chan *shard_new(void)
{
	gmp_chan *c = gmp_chan_new(0, 0);

	if (c)
		c->kind = OBJECT_DONE_CHAN;
	return c;
}

static void shard_free(gmp_chan *c)
{
	if (!c)
		return;
	object_claim(c, &c->kind, OBJECT_DONE_CHAN, "gmp_done_free");
	if (!chan_destroy(c))
		gmp__fatal("gmp_done_free of channel %p, on which a thread waits\n"
			   "call gmp_done_set, and wait until its waiters have run",
			   (void *)c);
}

gmp_done *gmp_done_new(void)
{
	gmp_done *d = malloc_zeroed(sizeof(*d));

	if (!d)
		return NULL;
	d->kind = OBJECT_DONE;
	d->shard[0] = shard_new();
	if (!d->shard[0]) {
		free(d);
		return NULL;
	}
	return d;
}

/* DONE-2 */
static void done_release(gmp_done *d)
{
	for (int i = 0; i < SHARDS; i++)
		shard_free(d->shard[i]);
	object_free(d, sizeof(*d));
}

void gmp_done_free(gmp_done *d)
{
	if (!d)
		return;
	object_claim(d, &d->kind, OBJECT_DONE, "gmp_done_free");
	if (xchg_seq(&d->set, (uint32_t)FREED) != SETTING) /* ORD(done) */
		done_release(d);
}

/*
 * Return shard i, which is created if the event has not happened (DONE-1).  The channel is created
 * outside the lock and freed again if another thread was faster.  If shard i does not exist and
 * cannot be created: shard 0.
 */
static noinline gmp_chan *shard_slow(gmp_done *d, unsigned i)
{
	gmp_chan *made = ld_rlx(&d->set) == UNSET ? shard_new() : NULL, *c;

	lock(&d->lock, LR_DONE);
	c = d->shard[i];
	if (!c && made && ld_rlx(&d->set) == UNSET) { /* SET is stored unlocked */
		st_rel(&d->shard[i], made);           /* ORD(done.shard) */
		c = made;
	}
	unlock(&d->lock, LR_DONE);
	if (made != c)
		shard_free(made);
	return c ? c : d->shard[0];
}

gmp_chan *gmp_done_chan(gmp_done *d)
{
	if (!d)
		return NULL;
	object_check(&d->kind, &d->lock);
	struct p *pp = getp();
	unsigned i = pp ? (unsigned)pp->id % SHARDS : 0;
	gmp_chan *c = ld_acq(&d->shard[i]); /* ORD(done.shard) */

	return likely(c != NULL) ? c : shard_slow(d, i);
}

int gmp_done_set(gmp_done *d)
{
	if (!d)
		return -EINVAL;
	lock(&d->lock, LR_DONE);
	bool first = ld_rlx(&d->set) == UNSET; /* SET is stored unlocked */

	if (first)
		st_rel(&d->set, SETTING); /* ORD(done) */
	unlock(&d->lock, LR_DONE);
	if (!first)
		return -EALREADY;
	for (int i = 0; i < SHARDS; i++)
		if (d->shard[i])
			gmp_chan_close(d->shard[i]);
	if (xchg_seq(&d->set, (uint32_t)SET) == FREED) /* ORD(done) */
		done_release(d);
	return 0;
}

int gmp_done_get(gmp_done *d)
{
	if (!d)
		return 0;
	object_check(&d->kind, &d->lock);
	return ld_acq(&d->set) != UNSET; /* ORD(done) */
}

int gmp_done_wait_until(gmp_done *d, int64_t deadline)
{
	chaos_point();
	if (!d)
		return -EINVAL;
	if (gmp_done_get(d))
		return 0;
	int result = gmp_chan_recv_until(gmp_done_chan(d), NULL, deadline);

	return result == -EPIPE ? 0 : result;
}

int gmp_done_wait(gmp_done *d)
{
	return gmp_done_wait_until(d, GMP_FOREVER);
}
