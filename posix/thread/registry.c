/* SPDX-License-Identifier: MIT */
/* Table of POSIX threads that are green threads: a hash table by pthread_t; see registry.h. */
#include "posix/thread/registry.h"

#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/os.h"

/* 25 records of a chain with 100,000 threads.  A struct of libc is aligned to 64 bytes. */
enum { CHAINS = 4096, SELF_SHIFT = 6, RECORDS = 64 };

static struct {
	struct lock lock;
	struct thread *unused;
	struct thread *chain[CHAINS];
} table;

/* The handler may have interrupted a holder of other locks, but not of this one (SIGTAB-7).  So it
 * neither checks the order of locks nor touches the list of locks that the OS thread holds. */
static void lock_in_handler(void)
{
	while (xchg_acq(&table.lock.word, LOCK_TAKEN)) /* ORD(lock) */
		os_yield();
}

void threads_lock(void)
{
	signals_hold();
	if (unlikely(handler_runs()))
		lock_in_handler();
	else
		lock(&table.lock, LR_THREADS);
}

void threads_unlock(void)
{
	if (unlikely(handler_runs()))
		st_rel(&table.lock.word, LOCK_FREE); /* ORD(lock) */
	else
		unlock(&table.lock, LR_THREADS);
	signals_release();
}

static struct thread **chain_of(pthread_t self)
{
	uint64_t hash = ((uint64_t)self >> SELF_SHIFT) * 0x9e3779b97f4a7c15u;

	return &table.chain[hash >> 52];
}

_Static_assert(CHAINS == 1 << (64 - 52), "chain_of");

/* PTHREAD-2. */
static bool was_killed(const struct thread *t)
{
	return t->state != THREAD_ENDED && t->run != run_number();
}

struct thread *thread_find(pthread_t self)
{
	struct thread *t = *chain_of(self);

	while (t && (t->self != self || was_killed(t)))
		t = t->next;
	return t;
}

struct thread *thread_find_or_first(pthread_t self)
{
	struct thread *t = thread_find(self), *first = forked_thread();

	return !t && first && first->self == self ? first : t;
}

void threads_each(void (*fn)(struct thread *t, int signo, bool ignored), int signo, bool ignored)
{
	for (int i = 0; i < CHAINS; i++)
		for (struct thread *t = table.chain[i]; t; t = t->next)
			if (!was_killed(t))
				fn(t, signo, ignored);
}

void thread_unlist(struct thread *t)
{
	if (!t->at_killed)
		return;
	*t->at_killed = t->next_killed;
	if (t->next_killed)
		t->next_killed->at_killed = t->at_killed;
	t->at_killed = NULL;
}

void thread_unused(struct thread *t)
{
	thread_unlist(t);
	t->next = table.unused;
	table.unused = t;
}

void thread_enter(struct thread *t)
{
	struct thread **at = chain_of(t->self), *old;

	while ((old = *at)) {
		if (was_killed(old)) {
			*at = old->next;
			thread_unused(old);
		} else {
			at = &old->next;
		}
	}
	t->next = NULL;
	*at = t;
}

struct tlsblock *thread_remove(struct thread *t)
{
	struct thread **at = chain_of(t->self);
	struct tlsblock *b = t->block;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	thread_unused(t);
	return b;
}

static struct thread *take_unused(void)
{
	threads_lock();
	struct thread *t = table.unused;

	if (t)
		table.unused = t->next;
	threads_unlock();
	return t;
}

/* A block of its own for each record would be between the allocations of the program: servers scan
 * those they make for each thread. */
struct thread *thread_record(void)
{
	struct thread *t = take_unused();

	if (!t && (t = calloc(RECORDS, sizeof(*t)))) {
		threads_lock();
		for (int i = 1; i < RECORDS; i++)
			thread_unused(&t[i]);
		threads_unlock();
	}
	if (t)
		memset(t, 0, sizeof(*t));
	return t;
}

void threads_forget(void)
{
	memset(&table, 0, sizeof(table));
}

/* Step 5.  Returns true if the record keeps the block. */
static bool thread_ended(struct g *gp, struct tlsblock *b)
{
	struct thread *t = thread_of(gp);

	if (!t)
		return false;
	threads_lock();
	bool keeps = t->state == THREAD_JOINABLE;

	if (keeps) {
		t->state = THREAD_ENDED;
		t->block = b;
	} else {
		thread_remove(t);
	}
	threads_unlock();
	return keeps;
}

__attribute__((constructor)) static void keep_blocks(void)
{
	green_on_end(thread_ended);
}
