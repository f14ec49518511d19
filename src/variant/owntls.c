/* SPDX-License-Identifier: MIT */
/* Own thread-locals of green threads: the pool of blocks; see variant/owntls.h. */
#include "variant/owntls.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "base/throw.h"

/* A batch of new blocks has a GROWTH-th of the number of blocks that were made, so that few green
 * threads do not pay for many.  BATCH_MOST blocks are some 300 KB. */
enum { GROWTH = 8, BATCH_MOST = 64 };

struct tlsblock **gmp__own_blocks;
bool (*gmp__owntls_keep)(struct g *gp, struct tlsblock *b);

static struct {
	pthread_mutex_t begin; /* one owntls_prepare at a time */
	size_t bytes;          /* of gmp__own_blocks */
	bool used;             /* (a) */
	bool told;             /* (a) in this run: a block could not be made */
	uint32_t made;         /* (a) blocks, at any time; for the size of the next batch */
	struct lock lock;
	struct tlsblock *free; /* under the lock */
} own = { .begin = PTHREAD_MUTEX_INITIALIZER };

bool owntls_is_used(void)
{
	return ld_acq(&own.used); /* ORD(owntls) */
}

void owntls_set_used(void)
{
	st_rel(&own.used, true); /* ORD(owntls): the steps and gmp__own_blocks before it */
}

static int prepare_locked(const char **why)
{
	int err = gmp__own_blocks ? 0 : tlsblock_probe(why);

	if (err || gmp__own_blocks)
		return err;
	st_rlx(&own.told, false);
	own.bytes =
		round_up(((size_t)sched.options.c.max_green + 1) * sizeof(struct tlsblock *), PAGE);
	gmp__own_blocks = os_reserve(own.bytes);
	if (!gmp__own_blocks)
		return -ENOMEM;
	tlsblock_signals_begin();
	return 0;
}

int owntls_prepare(const char **why)
{
	pthread_mutex_lock(&own.begin);
	int err = prepare_locked(why);

	pthread_mutex_unlock(&own.begin);
	return err;
}

/* --- the pool --- */

static void give_locked(struct tlsblock *b)
{
	*tlsblock_next(b) = own.free;
	own.free = b;
}

static struct tlsblock *cache_pop(struct p *pp)
{
	struct tlsblock *b = pp->blocks.top;

	pp->blocks.top = *tlsblock_next(b);
	pp->blocks.n--;
	return b;
}

static void cache_spill(struct p *pp, uint32_t keep)
{
	lock(&own.lock, LR_OWNTLS);
	while (pp->blocks.n > keep)
		give_locked(cache_pop(pp));
	unlock(&own.lock, LR_OWNTLS);
}

static void give_to_all(struct tlsblock *b)
{
	lock(&own.lock, LR_OWNTLS);
	give_locked(b);
	unlock(&own.lock, LR_OWNTLS);
}

/* Makes several blocks; returns one of them, or NULL without memory.  libc takes them from malloc.
 * Blocks made one by one would be between the allocations of the program: a server that scans what
 * it allocates for each thread then has a cache miss and a TLB miss for each. */
static noinline struct tlsblock *more_blocks(void)
{
	struct tlsblock *b = tlsblock_new(), *more;
	uint32_t n = min_of(add_rlx(&own.made, 1) / GROWTH, (uint32_t)BATCH_MOST);

	for (; b && n; n--) {
		more = tlsblock_new();
		if (!more)
			break;
		add_rlx(&own.made, 1);
		give_to_all(more);
	}
	return b;
}

struct tlsblock *owntls_take(struct p *pp)
{
	if (likely(pp && pp->blocks.top))
		return cache_pop(pp);
	lock(&own.lock, LR_OWNTLS);
	struct tlsblock *b = own.free;

	if (b)
		own.free = *tlsblock_next(b);
	unlock(&own.lock, LR_OWNTLS);
	return b ? b : more_blocks();
}

void owntls_give(struct p *pp, struct tlsblock *b)
{
	if (unlikely(!pp)) {
		give_to_all(b);
		return;
	}
	*tlsblock_next(b) = pp->blocks.top;
	pp->blocks.top = b;
	if (unlikely(++pp->blocks.n > OWNTLS_CACHE))
		cache_spill(pp, OWNTLS_CACHE / 2);
}

void owntls_flush(struct p *pp)
{
	if (pp->blocks.n)
		cache_spill(pp, 0);
}

/* --- the life of a G --- */

void owntls_attach(struct g *gp, struct tlsblock *b)
{
	gmp__own_blocks[gp->token] = b;
	gp->resume |= RESUME_OWN_TLS;
	gp->at_end |= AT_END_OWN_TLS;
}

bool owntls_supply(struct p *pp, struct g *gp)
{
	struct tlsblock *b = owntls_take(pp);

	if (b)
		owntls_attach(gp, b);
	return b != NULL;
}

bool owntls_supply_late(struct p *pp, struct g *gp)
{
	struct line l = { .n = 0 };

	if (likely(owntls_supply(pp, gp)))
		return true;
	if (!ld_rlx(&own.told)) { /* two Ms may both write it */
		st_rlx(&own.told, true);
		line_str_sig(&l, "gmp: no memory for the thread-locals of a green thread: it "
				 "begins when another one has ended\n");
		line_write_sig(&l, STDERR_FILENO);
	}
	return false;
}

void owntls_begin(struct m *m, struct g *gp)
{
	struct tlsblock *b = owntls_block(gp);

	tlsblock_prepare(b, gp->stack, (size_t)1 << gp->stack_class);
	tlsblock_load(b, m, m->tp);
	tlsblock_first();
}

void owntls_end(void)
{
	tlsblock_last();
}

/* Returns the block of gp, and makes gp a G without one; NULL: it had none. */
static struct tlsblock *take_off(struct g *gp)
{
	if (!gmp__own_blocks)
		return NULL;
	struct tlsblock *b = gmp__own_blocks[gp->token];

	gmp__own_blocks[gp->token] = NULL;
	return b;
}

void owntls_release(struct p *pp, struct g *gp)
{
	struct tlsblock *b = take_off(gp);

	tlsblock_reset(b);
	if (unlikely(gmp__owntls_keep != NULL) && gmp__owntls_keep(gp, b))
		return;
	owntls_give(pp, b);
}

struct tlsblock *owntls_abandon(struct g *gp)
{
	return take_off(gp);
}

void owntls_kill(struct g *gp)
{
	struct tlsblock *b = take_off(gp);

	if (b && tlsblock_renew(b))
		owntls_give(NULL, b);
	else if (b)
		tlsblock_free(b);
}

/* --- the end of a run --- */

void owntls_fini(void)
{
	if (!gmp__own_blocks)
		return;
	for (int i = 0; i < sched.nallp; i++)
		owntls_flush(sched.allp[i]);
	os_release(gmp__own_blocks, own.bytes);
	gmp__own_blocks = NULL;
	own.used = false;
}

void owntls_forget(void)
{
	tlsblock_forked();
	gmp__own_blocks = NULL;
	own.used = false;
	own.made = 0;
	own.free = NULL;
	memset(&own.lock, 0, sizeof(own.lock));
	pthread_mutex_init(&own.begin, NULL);
}
