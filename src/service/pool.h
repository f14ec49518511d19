/* SPDX-License-Identifier: MIT */
/*
 * Pool: runs many tasks on few green threads, its workers, each of which runs one task after
 * another.
 *
 * A pool has places, at most `capacity`. A place is held by a task (running) or kept for one
 * (idle). A task with a place waits in the queue until a worker takes it. A worker whose task
 * has ended takes the next one from the queue, so tasks that do not wait share a worker without
 * a park or a wakeup between them. A task that waits keeps its worker, which has made sure
 * before the task began that another worker comes for the rest of the queue.
 *
 *   submitters ──> wait in FIFO order for a place ──┐
 *                                                   ├──> queue ──> workers ⇄ parked (LIFO)
 *   delayed tasks ──> heap, until they are due ─────┘
 *
 *   submitter (lock, then)                       worker (lock, then)
 *    1 if a place is free and no submitter        1 its task has ended: the place is idle, or gone
 *      waits: take it, enqueue the task             if there are more than `capacity`
 *    2 if no worker is coming: wake a parked      2 admit: a free place goes to a delayed task that
 *      worker or start one; it is coming            is due, or to the first submitter that waits
 *    3 unlock; wake the worker of step 2          3 dequeue a task; if the queue is not empty and
 *   or, without a place: leave the task in a        no worker is coming, wake or start one
 *      node, and wait until it is admitted        4 unlock; wake the nodes of 2 and 3; run the task
 *                                                 or, without a task: park, or end
 *
 * Invariants
 *   POOL-1  running + idle <= capacity, except after a resize, until enough tasks have ended.
 *           A submitter waits only while there is no place. Waiting submitters are admitted
 *           in FIFO order, by the thread that frees the place.
 *   POOL-2  While the queue is not empty, a worker is coming (it will lock and dequeue), or
 *           the timer `due` will fire because no worker could be started. At most one worker
 *           is coming at a time, and it wakes the next (step 3): a burst of tasks wakes
 *           workers one by one, as long as tasks are left.
 *   POOL-3  threads <= running + idle, and parked <= idle: a surplus worker ends. So an idle
 *           place costs no G unless its tasks had to wait.
 *   POOL-4  A place that was idle for idle_ns, during all of four quarters, goes; with the
 *           last such place the workers end that have been parked longest. The timer `tidy`
 *           is armed only while a place is idle.
 *   POOL-5  Memory for a task is there before its submitter waits (`has_slot`): to admit
 *           cannot fail.
 *   POOL-6  A thread that waits for the pool does so on a semaphore in a node, and nodes are
 *           in the pool's memory: shutdown kills Gs, but leaves no pointer to their stacks. A
 *           pool belongs to its run: after it every call except free is refused before it
 *           reads anything else.
 *   POOL-7  The pool's memory is freed when threads and node_waiters (submitters and joiners
 *           with a node) are 0. The last access of each is the unlock in which it subtracts
 *           itself, or the release of the semaphore of a node that is still counted. A joiner
 *           waits for the workers too, except if the pool is open again: then until at most
 *           `result` tasks run, 1 if the joiner itself is a task of the pool, otherwise 0.
 *   POOL-8  gmp_exit in a task frees its place too: the destructor of an fls value settles the
 *           worker's account.
 *
 * An external thread that must wait sends a green thread to do it and joins that (delegate.h).
 * So it gets -ESRCH if the run ends first.
 *
 * Rejected
 *   A worker for each task (ants): two switches and a wakeup per empty task.
 *   A timer for each idle worker: two changes of a heap per park.
 */
#ifndef GMP_POOL_H
#define GMP_POOL_H

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "service/service.h"

enum {
	BLOCK = 63,                /* tasks of a block, of about 1 KiB */
	CHUNK = 63,                /* nodes of a chunk */
	QUARTERS = 4,              /* POOL-4 */
	RETRY_NS = 10 * MS,        /* between attempts to start a worker without memory */
	QUARTER_MIN_NS = 100 * US, /* shortest period of `tidy`; not measured */
	IDLE_NS = S,               /* the default of gmp_pool_opts.idle_ns */
};

struct task {
	gmp_fn fn;
	void *arg;
};

/* The queue is a list of blocks. */
struct block {
	struct block *next;
	struct task task[BLOCK];
};

struct delayed {
	int64_t when;
	struct task task;
};

/* A worker, or a thread that waits for the pool: a submitter, or a joiner (waits for the end). */
struct node {
	gmp_sem wake;             /* where it waits */
	struct node *next, *prev; /* in one list at a time; under the lock, as what follows */
	gmp_pool *pool;           /* (c) */
	struct task task;         /* a submitter's */
	int result;               /* a submitter's result; a joiner's goal: see pool_wake_joiners */
	bool listed;              /* in a list: no waker has removed it */
	bool coming, leaving;     /* a worker's: why it was woken */
	bool busy;                /* private to a worker: it has a task */
	bool worker;
};

struct list {
	struct node *first, *last;
};

struct chunk {
	struct chunk *next;
	struct node node[CHUNK];
};

struct gmp_pool {
	struct lock lock;
	uint32_t kind; /* (c) enum object_kind */
	uint64_t run;  /* (c) near the start: POISON once freed, which is no run id */
	int capacity;  /* under the lock, as what follows; INT_MAX: no bound */
	int running, idle, waiting;
	int threads; /* workers that have not ended */
	int parked_count;
	int node_waiters; /* POOL-7: nodes of submitters and joiners */
	bool closed, coming;
	bool dying;       /* freed by one of its own tasks: the last user frees the memory */
	bool tidy_armed;  /* the timer `tidy` is armed */
	bool due_pending; /* delayed tasks may be due: check before parking */
	bool due_first;   /* the next free place is for a delayed task */
	uint32_t head_at, tail_at;
	size_t queued, slots; /* tasks in the queue; slots of all blocks, spare ones included */
	struct block *head, *tail, *spare;
	struct list parked, waiters, joiners; /* parked: LIFO */
	struct node *free;
	struct delayed *heap; /* base/heap4.h */
	size_t delayed, heap_size;
	int64_t until;          /* a recent gmp_now(): what is due by then needs no clock */
	int idle_min[QUARTERS]; /* POOL-4: fewest idle places per quarter; [0]: the current one */
	struct chunk *chunks;
	gmp_timer *due, *tidy; /* (c) from here on */
	gmp_fn fn;
	void (*dropped)(gmp_fn fn, void *arg);
	int64_t idle_ns;
	int max_waiting;
	bool nonblocking, prealloc, has_attr;
	gmp_attr attr; /* of workers, if has_attr */
	char name[64];
};

extern gmp_key pool_worker_key; /* fls key, POOL-8: the caller's node, if it is a worker */

/* Returns 0, -EINVAL without a pool, or -ESRCH after its run. Ends the process on a freed pool. */
static inline int pool_check(const gmp_pool *p, const char *call)
{
	if (unlikely(!p))
		return -EINVAL;
	if (likely(gmp_run_id() == p->run))
		return 0;
	service_check(p, &p->kind, OBJECT_POOL, call);
	return -ESRCH;
}

/* --- the lock --- */

static inline void pool_lock(gmp_pool *p)
{
	lock(&p->lock, LR_SERVICE);
}

static inline void pool_unlock(gmp_pool *p)
{
	unlock(&p->lock, LR_SERVICE);
}

/* --- lists of nodes --- */

static inline void list_push_first(struct list *l, struct node *n)
{
	n->prev = NULL;
	n->next = l->first;
	*(l->first ? &l->first->prev : &l->last) = n;
	l->first = n;
	n->listed = true;
}

static inline void list_push_last(struct list *l, struct node *n)
{
	n->next = NULL;
	n->prev = l->last;
	*(l->last ? &l->last->next : &l->first) = n;
	l->last = n;
	n->listed = true;
}

static inline void list_remove(struct list *l, struct node *n)
{
	*(n->prev ? &n->prev->next : &l->first) = n->next;
	*(n->next ? &n->next->prev : &l->last) = n->prev;
	n->listed = false;
}

/* Nodes that a change under the lock wakes after the unlock. */
static inline void wake_later(struct node **wake, struct node *n)
{
	n->next = *wake;
	*wake = n;
}

static inline void pool_wake_all(struct node *n)
{
	while (n) {
		struct node *next = n->next;

		gmp_sem_release(&n->wake, 1);
		n = next;
	}
}

static inline void pool_unlock_and_wake(gmp_pool *p, struct node *wake)
{
	pool_unlock(p);
	pool_wake_all(wake);
}

/* --- memory; under the lock --- */

static inline struct node *node_get(gmp_pool *p)
{
	struct node *n = p->free;

	p->free = n->next;
	*n = (struct node){ .pool = p };
	return n;
}

static inline void node_put(gmp_pool *p, struct node *n)
{
	n->next = p->free;
	p->free = n;
}

static inline void add_chunk(gmp_pool *p, struct chunk *c)
{
	c->next = p->chunks;
	p->chunks = c;
	for (int i = CHUNK - 1; i >= 0; i--)
		node_put(p, &c->node[i]);
}

static inline void add_block(gmp_pool *p, struct block *b)
{
	b->next = p->spare;
	p->spare = b;
	p->slots += BLOCK;
}

/*
 * POOL-5: there is a slot for one task beyond the queued tasks and the tasks of waiting submitters.
 * The first and the last block of the queue may be nearly empty.
 */
static inline bool has_slot(const gmp_pool *p)
{
	return p->slots > p->queued + (size_t)p->waiting + (size_t)2 * BLOCK;
}

static inline bool has_memory(const gmp_pool *p)
{
	return p->free && has_slot(p);
}

/* Allocates a chunk, a block, or both. Drops the lock meanwhile. Returns 0 or -ENOMEM. */
int pool_allocate(gmp_pool *p, bool chunk, bool block);
/* Allocates what has_memory misses, likewise. */
static inline int pool_grow(gmp_pool *p)
{
	return pool_allocate(p, !p->free, !has_slot(p));
}

/* --- the queue; under the lock --- */

static inline void queue_push(gmp_pool *p, struct task t)
{
	if (unlikely(p->tail_at == BLOCK)) {
		struct block *b = p->spare;

		p->spare = b->next;
		b->next = NULL;
		p->tail->next = b;
		p->tail = b;
		p->tail_at = 0;
	}
	p->tail->task[p->tail_at++] = t;
	p->queued++;
}

static inline struct task queue_pop(gmp_pool *p)
{
	struct block *b = p->head;
	struct task t = b->task[p->head_at++];

	if (--p->queued == 0) {
		p->head_at = p->tail_at = 0;
	} else if (p->head_at == BLOCK) {
		p->head = b->next;
		p->head_at = 0;
		b->next = p->spare;
		p->spare = b;
	}
	return t;
}

/* --- service/pool_delayed.c; under the lock --- */

/* Returns whether the earliest delayed task is due. Otherwise arms the timer `due` for it. */
bool pool_due(gmp_pool *p);
struct task pool_delayed_pop(gmp_pool *p);
/* Callback of the timer `due`. */
void pool_due_fired(void *arg);

/* --- service/pool.c; under the lock, except the callbacks --- */

static inline bool has_place(const gmp_pool *p)
{
	return p->idle > 0 || p->running < p->capacity;
}

/* Removes the submitter n from the list, with this result. */
void pool_end_wait(gmp_pool *p, struct node *n, int result, struct node **wake);
/* Step 2, after a place may have become free. */
void pool_admit_slow(gmp_pool *p, struct node **wake);
static inline void pool_admit(gmp_pool *p, struct node **wake)
{
	if (unlikely(p->waiters.first || p->due_pending || p->joiners.first))
		pool_admit_slow(p, wake);
}

/* Steps 2 to 4 of a caller that takes no task; drops the lock and wakes the nodes. */
void pool_settle(gmp_pool *p, struct node *wake);
/* POOL-3, after idle has decreased. */
void pool_dismiss_parked(gmp_pool *p, struct node **wake);
/* POOL-8: the destructor of pool_worker_key. */
void pool_worker_ended(void *arg);
/* Callback of the timer `tidy`. */
void pool_tidy_fired(void *arg);

/* --- service/pool_lifecycle.c --- */

/* Wakes each joiner whose goal is met: at most n->result tasks run, or with -1, POOL-7. */
void pool_wake_joiners(gmp_pool *p, struct node **wake);
/* POOL-7: takes n off the pool. Drops the lock, which is held, and may free the pool. */
void pool_retire(gmp_pool *p, struct node *n);
void pool_destroy(gmp_pool *p);

#endif
