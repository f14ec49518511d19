/* SPDX-License-Identifier: MIT */
/*
 * Objects of the model: creates Gs, threads, Ps and entry functions, and finds them by number.
 */
#ifndef TOOLS_TRACE_MODEL_NAMES_H
#define TOOLS_TRACE_MODEL_NAMES_H

#include "model.h"

void model_init(struct model *m, struct trace *t, const struct sink *sink);
struct thread *model_thread(struct model *m, uint32_t number);

/* Returns NULL for a number that is no P's. */
struct proc *model_proc(struct model *m, uint64_t number);

/* Marks a G as ended; frees Gs that have ended long ago. */
void model_bury(struct model *m, struct green *g);

/* Copies the values of a map, sorted by track or number. The caller frees the array. */
struct green **sorted_greens(const struct model *m, size_t *count);
struct thread **sorted_threads(const struct model *m, size_t *count);
struct proc **sorted_procs(const struct model *m, size_t *count);

#endif
