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

/* Returns the entry function of a G, which may not have had an event yet. */
struct entry *model_entry_of(struct model *m, uint64_t id);

/* Marks a G as ended; frees Gs that have ended long ago. */
void model_bury(struct model *m, struct green *g);

/* Notes that a wait of g ends: if it is for a lock, g may own that now. */
void model_hand_over(struct model *m, const struct green *g, const struct wake *wake);

/*
 * Returns the G that holds the object for which g begins to wait, or 0. `named` is the holder that
 * the event names, or 0.
 */
uint64_t model_holder(struct model *m, const struct green *g, uint64_t named);

/* Copies the values of a map, sorted by track or number. The caller frees the array. */
struct green **sorted_greens(const struct model *m, size_t *count);
struct thread **sorted_threads(const struct model *m, size_t *count);
struct proc **sorted_procs(const struct model *m, size_t *count);

#endif
