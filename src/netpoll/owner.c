/* SPDX-License-Identifier: MIT */
/*
 * Threads of an fd number: refuses a release or close that is not meant for the present file.
 *
 * A library closes the fd of connection A.  The number goes to connection B, which gmp opens, or
 * which a thread adopts.  Then a thread of A cleans up with gmp_fd_release or gmp_close of the
 * number that it knows.  Without a memory of A's threads this would end B's waits, and B's
 * connection would be unknown to gmp.
 *
 * An era is the time of one connection under the number.  It begins when gmp opens or adopts the
 * number, and when gmp_fd_wait of another thread than the adopter finds a new file there.  Threads
 * of an era are its adopter, the green thread that parked last on each side, and each thread whose
 * call ended with -ECANCELED because the registration was gone.
 *
 * Invariants, all under pd->lock
 *   OWNER-1  pd->owner is the adopter of the era; id 0 if gmp opened the file.  It stays after a
 *            gmp_close or gmp_fd_release by another thread, until the next era begins.
 *   OWNER-2  pd->former holds each thread of an earlier era that is alive and has neither opened or
 *            adopted the number nor begun a call on it since.  PD_LOST is set if there is such a
 *            thread; it may be set although there is none.
 *   OWNER-3  A release or close by a thread of pd->former is refused while a thread waits on the
 *            record, or while the adopter, or a green thread that has parked on it in this era, is
 *            alive.  If there is none, the connection was handed to the caller, and no wait can be
 *            ended.
 *   OWNER-4  A registration is never replaced by that of another thread without room to remember
 *            the threads of the era: the adoption, the opening or the wait fails with -ENOMEM.
 *   OWNER-5  Entries of threads that have ended are reused, so the table is no larger than four
 *            times the number of threads alive that have lost this number.
 *
 * A release is known by its caller and the number alone.  So a late release is not recognised if
 * its caller has adopted both connections, has begun a call on the number since it lost it, or has
 * only read and written without ever waiting.  gmp.h lists these as misuse (gmp_fd_release).
 *
 * Verified by model/late.pml.
 *
 * Cost: two stores for a wait that parks; nothing for other reads, writes and waits while PD_LOST
 * is clear.  While it is set, a call also takes pd->lock once, unless the same green thread has
 * made the last call.  Rejected: comparing files by kcmp(2) or inode (the number's present file is
 * known; the question is which file the caller means); refusing releases by all threads but the
 * adopter (a connection may be handed on).
 */
#include "netpoll/owner.h"

#include <errno.h>
#include <stdlib.h>

#include "enter.h"
#include "g.h"

struct former_user {
	struct adopter thread; /* id 0: free */
	uint32_t last; /* a registration of its era: a later era has begun if pd->era is larger */
};

struct former {
	uint32_t room;
	struct former_user at[];
};

enum { FORMER_LEAST = 4, FORMER_MOST = 1 << 16 };

/* The calling green thread, also in blocking code, or external thread. */
static struct adopter adopter_self(void)
{
	struct g *gp = own_green();

	if (gp)
		return (struct adopter){ ld_rlx(&gp->generation) + 1, gp };
	return (struct adopter){ (uint32_t)os_thread_id(), NULL };
}

static bool is_same(const struct adopter *a, const struct adopter *b)
{
	return a->id == b->id && a->gp == b->gp;
}

static bool owner_is_alive(const struct adopter *a)
{
	if (!a->id)
		return false;
	if (!a->gp)
		return os_thread_exists((int)a->id);
	uint8_t status = ld_rlx(&a->gp->status);

	return ld_rlx(&a->gp->generation) + 1 == a->id && status != G_DEAD && status != G_FREE;
}

/* The green thread that parked last on the side; id 0: none, or it has ended. */
static struct adopter user_of(const struct pollside *s)
{
	struct g *gp = s->user ? g_at(s->user - 1) : NULL;

	if (!gp || (uint16_t)ld_rlx(&gp->generation) != s->user_generation)
		return (struct adopter){ 0 };
	return (struct adopter){ ld_rlx(&gp->generation) + 1, gp };
}

/* --- the table --- */

static struct former_user *owner_find(struct former *f, const struct adopter *a)
{
	for (uint32_t i = 0; f && i < f->room; i++)
		if (is_same(&f->at[i].thread, a))
			return &f->at[i];
	return NULL;
}

static struct former_user *owner_find_free(struct former *f)
{
	for (uint32_t i = 0; f && i < f->room; i++)
		if (!owner_is_alive(&f->at[i].thread))
			return &f->at[i];
	return NULL;
}

static bool has_free(const struct former *f, uint32_t n)
{
	for (uint32_t i = 0; f && n && i < f->room; i++)
		if (!owner_is_alive(&f->at[i].thread))
			n--;
	return n == 0;
}

static bool is_empty(const struct former *f)
{
	return !f || has_free(f, f->room);
}

/* Under pd->lock, which is dropped meanwhile: a larger table. */
static int grow_unlocking(struct polldesc *pd)
{
	uint32_t room = pd->former ? pd->former->room * 2 : (uint32_t)FORMER_LEAST;
	struct former *more = NULL, *gone;

	unlock(&pd->lock, LR_POLLDESC);
	if (room <= FORMER_MOST)
		more = calloc(1, sizeof(*more) + room * sizeof(more->at[0]));
	lock(&pd->lock, LR_POLLDESC);
	if (!more)
		return -ENOMEM;
	more->room = room;
	gone = more;
	if (!pd->former || pd->former->room < room) {
		gone = pd->former;
		for (uint32_t i = 0; gone && i < gone->room; i++)
			more->at[i] = gone->at[i];
		pd->former = more;
	}
	unlock(&pd->lock, LR_POLLDESC);
	free(gone);
	lock(&pd->lock, LR_POLLDESC);
	return 0;
}

static void remember(struct polldesc *pd, const struct adopter *a, uint32_t last)
{
	if (!owner_is_alive(a))
		return;
	struct former_user *at = owner_find(pd->former, a);

	if (!at)
		at = owner_find_free(pd->former);
	if (!at)
		return;
	*at = (struct former_user){ *a, last };
	st_rlx(&pd->joined, 0u);
	or_seq(&pd->use, PD_LOST); /* ORD(pd.use) */
}

static bool is_former(const struct polldesc *pd, const struct former_user *l)
{
	return l && (int32_t)(l->last - pd->era) < 0;
}

/* --- eras --- */

/* How many threads of this era the next era may have to remember. */
static uint32_t count_members(const struct polldesc *pd)
{
	struct adopter members[] = { pd->owner, user_of(&pd->side[0]), user_of(&pd->side[1]) };
	uint32_t n = 0;

	for (int i = 0; i < 3; i++)
		if (owner_is_alive(&members[i]))
			n++;
	return n;
}

bool owner_has_room(struct polldesc *pd)
{
	return has_free(pd->former, count_members(pd));
}

int owner_lock(struct polldesc *pd)
{
	lock(&pd->lock, LR_POLLDESC);
	while (unlikely(!owner_has_room(pd))) {
		int err = grow_unlocking(pd);

		if (!err)
			continue;
		unlock(&pd->lock, LR_POLLDESC);
		return err;
	}
	return 0;
}

void owner_change(struct polldesc *pd, bool adopted, uint32_t seq)
{
	pd->era = seq;
	if (!adopted && !pd->owner.id && !pd->side[0].user && !pd->side[1].user &&
	    !(ld_rlx(&pd->use) & PD_LOST))
		return;
	struct adopter self = adopter_self();
	struct adopter members[] = { pd->owner, user_of(&pd->side[0]), user_of(&pd->side[1]) };

	for (int i = 0; i < 3; i++)
		if (!is_same(&members[i], &self))
			remember(pd, &members[i], seq - 1);
	struct former_user *was = owner_find(pd->former, &self);

	if (was)
		*was = (struct former_user){ 0 };
	pd->owner = adopted ? self : (struct adopter){ 0 };
	pd->side[0].user = pd->side[1].user = 0;
}

bool owner_is_self(const struct polldesc *pd)
{
	struct adopter self = adopter_self();

	return is_same(&pd->owner, &self);
}

void owner_closes(struct polldesc *pd)
{
	if (likely(!pd->owner.id && !pd->side[0].user && !pd->side[1].user))
		return;
	struct adopter self = adopter_self();

	if (is_same(&pd->owner, &self))
		pd->owner = (struct adopter){ 0 };
	for (int i = 0; i < 2; i++) {
		struct adopter user = user_of(&pd->side[i]);

		if (is_same(&user, &self))
			pd->side[i].user = 0;
	}
}

static bool has_other(const struct polldesc *pd)
{
	return ld_rlx(&pd->side[0].head) || ld_rlx(&pd->side[1].head) || pd->entries ||
	       count_members(pd) > 0;
}

bool owner_lost(struct polldesc *pd)
{
	if (likely(!(ld_rlx(&pd->use) & PD_LOST)))
		return false;
	struct adopter self = adopter_self();

	/* a thread of the present era is not in pd->former, so the others are not the caller */
	return is_former(pd, owner_find(pd->former, &self)) && has_other(pd);
}

/* --- calls --- */

void owner_leave(struct polldesc *pd, uint32_t seq)
{
	struct adopter self = adopter_self();

	lock(&pd->lock, LR_POLLDESC);
	while (!owner_find(pd->former, &self) && !owner_find_free(pd->former))
		if (grow_unlocking(pd) != 0)
			break;
	remember(pd, &self, seq);
	unlock(&pd->lock, LR_POLLDESC);
}

void owner_join(struct polldesc *pd)
{
	struct adopter self = adopter_self();
	uint32_t token = self.gp ? self.gp->token : 0;

	if (token && ld_rlx(&pd->joined) == token)
		return;
	lock(&pd->lock, LR_POLLDESC);
	struct former_user *was = owner_find(pd->former, &self);

	if (is_former(pd, was))
		*was = (struct former_user){ 0 };
	if (is_empty(pd->former))
		and_seq(&pd->use, ~(uint32_t)PD_LOST); /* ORD(pd.use) */
	st_rlx(&pd->joined, token);
	unlock(&pd->lock, LR_POLLDESC);
}

void owner_free(struct polldesc *pd)
{
	free(pd->former);
	pd->former = NULL;
}
