/* SPDX-License-Identifier: MIT */
/* Threads that an fd number belongs to, or has belonged to: see netpoll/owner.c. */
#ifndef GMP_OWNER_H
#define GMP_OWNER_H

#include "netpoll/record.h"

/*
 * Take pd->lock, with room for what the next owner_change remembers.  No locks held.
 *
 * Returns 0, or -ENOMEM with the lock not taken.
 */
int owner_lock(struct polldesc *pd);
/* Under pd->lock: is there that room? */
bool owner_has_room(struct polldesc *pd);
/* Under pd->lock: the caller's registration `seq` begins a new era; owner_has_room.  adopted: the
 * file was opened elsewhere. */
void owner_change(struct polldesc *pd, bool adopted, uint32_t seq);
/* Under pd->lock: is the caller the adopter of the present era? */
bool owner_is_self(const struct polldesc *pd);
/* Under pd->lock: the caller gives the number back. */
void owner_closes(struct polldesc *pd);
/* Under pd->lock: true if the caller has lost the number, and other threads use it (OWNER-3). */
bool owner_lost(struct polldesc *pd);
/* The caller's call on registration `seq` ends since that is gone.  No locks held.  Without memory
 * it is not remembered. */
void owner_leave(struct polldesc *pd, uint32_t seq);
/* The caller begins a call on the record: it belongs to the present era.  No locks held. */
void owner_join(struct polldesc *pd);
void owner_free(struct polldesc *pd);

#endif
