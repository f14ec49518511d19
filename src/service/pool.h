/* SPDX-License-Identifier: MIT */
/*
 * How do many tasks share few green threads?
 *
 * A pool has places, at most `capacity`: each is held by a task (running) or kept for one (idle).  A
 * task that has a place stands in the queue until one of the pool's green threads, its workers, takes
 * it.  A worker that has ended a task takes the next one from the queue: tasks that do not wait
 * share a worker, with nobody put to sleep or woken between them.  One that waits keeps its worker,
 * and has seen to it before it began that another comes for what is left in the queue.
 *
 *   submitters ──> wait in order, while there is no place ──┐
 *                                                           ├──> queue ──> workers ⇄ parked, last in
 *   delayed tasks ──> heap by time, while it has not clear_coming ──┘                         first out
 *
 *  a submitter (lock, then)                         a worker (lock, then)
 *   1 a place is free, and nobody waits for one:     1 its task has ended: the place is idle, or gone
 *     take it, put the task into the queue             where there are more than `capacity`
 *   2 nobody is coming: one is, a parked worker      2 admit: a free place goes to a delayed task that
 *     or a new one                                     is due, or to the first submitter that waits
 *   3 unlock; wake who is coming                     3 take the first task of the queue; if something
 *   or, with no place: leave the task in a node,       is left there, and nobody is coming, one is
 *     and wait until it has been admitted            4 unlock; wake those of 2 and 3; run the task
 *                                                    or, without a task: pool_park, or end
 *
 * Invariants
 *  O1 running + idle <= capacity, but after a resize, until enough tasks have ended.  A submitter
 *     waits only while there is no place.  Who waits is admitted in order, by whoever frees the place.
 *  O2 While the queue is not empty, a worker is coming (it will lock and look), or the timer `due` will
 *     fire, because none could be started.  At most one is coming at a time, and it brings on the next
 *     (step 3): a burst of tasks wakes workers one by one, as long as there is something to do.
 *  O3 threads <= running + idle, and parked <= idle: a worker that would be one too many ends.  So
 *     idle places cost nothing until their tasks had to wait.
 *  O4 A place that was idle for idle_ns, through the whole of four quarters, goes, and with the last of
 *     them go those who have been parked longest.  The timer `tidy` runs only while something is idle.
 *  O5 Memory for a task is there before its submitter waits (`has_slot`): admitting cannot fail.
 *  O6 Whoever sleeps for the pool does so on a semaphore in a node, and nodes lie in the pool's memory:
 *     what is left of those who are dropped at the end of a run is never on a stack.  The pool
 *     belongs to its run: after that every call but free is refused before it looks at anything.
 *  O7 The pool's memory goes when threads and node_waiters (submitters with a node) are 0.  Each one's last
 *     touch is the unlocking in which it takes itself off, or the release of the semaphore of one who
 *     is counted still.
 *     Who waits for the end of the tasks (joiners) waits for the workers too, but not where the pool has been
 *     opened again meanwhile: then until no more tasks run at an instant than it has itself.
 *  O8 A place is freed also by gmp_exit: a worker's account is closed by a destructor of its locals.
 *
 * An external thread that has to wait sends a green thread to do it, and joins that: so it gets -ESRCH
 * if the run ends first.
 *
 * Rejected: to hand each task to a worker of its own (ants): two switches and a wake-up for each empty
 * task; a timer for each idle worker: two changes of a heap for each time that one parks.
 */
#ifndef GMP_POOL_H
#define GMP_POOL_H

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "service/service.h"

enum { BLOCK = 63, CHUNK = 63, QUARTERS = 4 };
enum { RETRY_NS = 10000000, QUARTER_MIN_NS = 100000, SECOND = 1000000000 };

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

/* A worker, or one who waits for something of the pool's. */
struct node {
	gmp_sem wake;             /* it sleeps here */
	struct node *next, *prev; /* in one list at a time; all others under the lock too */
	gmp_pool *pool;           /* (c) */
	struct task task;         /* a submitter's */
	int result;               /* a submitter's; of one who waits for the end: see drained */
	bool listed;              /* nobody has taken it out to wake it */
	bool coming, leaving;     /* a worker's: why it was woken */
	bool busy;                /* a worker's own: it has a task */
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
	uint64_t
		run; /* (c) near the ensure_worker: POISON once freed, so that no run id equals it */
	int capacity; /* all that follows is under the lock; INT_MAX: no bound */
	int running, idle, waiting;
	int threads; /* workers that have not ended */
	int parked_count;
	int node_waiters; /* nodes that are no workers' */
	bool closed, coming;
	bool dying;      /* freed from a task of its own: the last one frees the memory */
	bool tidy_armed; /* the timer `tidy` is armed */
	bool due_pending; /* the time of some delayed tasks may have clear_coming: look before you pool_park */
	bool due_first; /* the next free place is for a delayed task */
	uint32_t head_at, tail_at;
	size_t queued, slots; /* tasks in the queue; room in all blocks, the spare ones too */
	struct block *head, *tail, *spare;
	struct list parked, waiters, joiners; /* parked: the last in is first */
	struct node *free;
	struct delayed *heap; /* the earliest first, four children each */
	size_t delayed, heap_size;
	int64_t until; /* what is due by then needs no look at the clock */
	int idle_min
		[QUARTERS]; /* O4: least number of idle places in each quarter, idle_min[0]: in this one */
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

extern gmp_key pool_worker_key; /* O8: the caller's node, if it is a worker */

/* Returns -EINVAL without a pool, -ESRCH if its run is over, 0. Ends the process on a freed pool. */
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

/* Those whom a change under the lock wakes, after it. */
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

/* O5: there is room for one task beyond those in the queue and those whose submitters wait.  The first
 * and the last block of the queue may be nearly empty. */
static inline bool has_slot(const gmp_pool *p)
{
	return p->slots > p->queued + (size_t)p->waiting + (size_t)2 * BLOCK;
}

static inline bool has_memory(const gmp_pool *p)
{
	return p->free && has_slot(p);
}

/* Get what is missing; drops the lock meanwhile. */
int pool_grow(gmp_pool *p);

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

/* The earliest is due.  If it is not, the timer will tell. */
bool pool_due(gmp_pool *p);
struct task pool_delayed_pop(gmp_pool *p);
/* The timer `due`. */
void pool_due_fired(void *arg);

/* --- service/pool.c; under the lock, but for the callbacks --- */

static inline bool has_place(const gmp_pool *p)
{
	return p->idle > 0 || p->running < p->capacity;
}

/* A submitter waits no more. */
void pool_end_wait(gmp_pool *p, struct node *n, int result, struct node **wake);
/* A place may be free, or more of them: step 2. */
void pool_admit_slow(gmp_pool *p, struct node **wake);
static inline void pool_admit(gmp_pool *p, struct node **wake)
{
	if (unlikely(p->waiters.first || p->due_pending || p->joiners.first))
		pool_admit_slow(p, wake);
}

/* O2, where nobody is to be told of a failure. */
void pool_bring_worker(gmp_pool *p, struct node **wake);
/* O3, when there are fewer idle places. */
void pool_dismiss_parked(gmp_pool *p, struct node **wake);
/* O8: a key's destructor. */
void pool_worker_ended(void *arg);
/* The timer `tidy`. */
void pool_tidy_fired(void *arg);

/* --- service/pool_lifecycle.c --- */

/* The caller of a call that is to wait, or the green thread that it has sent. */
struct pool_delegate {
	int (*wait)(struct node *n, int64_t deadline);
	struct node *n;
	int64_t deadline;
	int result;
};

/* Run the delegate on a green thread, the caller or another.  False: there is nobody to send. */
bool pool_wait(struct pool_delegate *e);
/* Wake those who wait for the end: of all tasks but n->result, or with -1, of all (O7). */
void pool_wake_joiners(gmp_pool *p, struct node **wake);
/* O7: nobody is behind n any more.  The lock is held, and dropped. */
void pool_retire(gmp_pool *p, struct node *n);
void pool_destroy(gmp_pool *p);

#endif
