/* SPDX-License-Identifier: MIT */
/* Spawn of green threads, for the files that start them, and their join word.  Join: wait/join.c.
*/
#ifndef GMP_SPAWN_H
#define GMP_SPAWN_H

#include "types.h"

/*
 * Join word of a G, gp->join.
 *
 *   JOIN_DETACHED  the handle may not be used any more, or there is none (JOIN-3)
 *   JOIN_JOINABLE  a handle exists, no joiner waits, the G has not ended
 *   JOIN_DONE      the G has ended and no joiner has taken its end; set on g0
 *   greater        joined: the address of the joiner's sudog, which is queued (`queued` is true);
 *                  set by the joiner, cleared by the end of the G, by shutdown or by the timeout
 *
 * Read without the lock by the end of a G alone, for JOIN_DETACHED: it cannot change any more.
 */
enum joinstate { JOIN_DETACHED = 0, JOIN_JOINABLE = 1, JOIN_DONE = 2 };

/*
 * Makes a green thread that is not runnable yet, with fn(arg) as its entry.  klass: the size class
 * of its stack, 0 for the default.  join: enum joinstate, as the first state of the join word; 0 is
 * detached.  Returns NULL and sets *err if there is no g struct.
 */
struct g *green_new(gmp_fn fn, void *arg, unsigned klass, uintptr_t join, int *err);
/* The same, detached and with a default stack, for a deferred G (G-4). */
struct g *green_new_deferred(gmp_fn fn, void *arg, int *err);
/* Starts a detached G of the runtime itself.  stack_size: 0 is the default.  Returns as
 * gmp_spawn. */
int green_start(gmp_fn fn, void *arg, const char *name, size_t stack_size);
/* Sets *klass to the size class for `size` bytes, 0 for the default, and reserves a stack if it is
 * not of the default class.  Returns 0 or a negative errno. */
int stack_class_of(size_t size, unsigned *klass);

#endif
