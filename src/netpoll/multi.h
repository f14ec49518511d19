/* SPDX-License-Identifier: MIT */
/* Waits of gmp_poll on several fds: see netpoll/multi.c. */
#ifndef GMP_MULTI_H
#define GMP_MULTI_H

#include "netpoll/fire.h"

/* Step 1: note the events of fd, before the poll(2). */
void multi_look(struct multi_entry *e, int fd);

enum { MULTI_LINKED = 0, MULTI_AGAIN = 1, MULTI_CHANGED = 2, MULTI_ABSENT = 3 };

/*
 * Link the entry with its record, so that each change of readiness from here on fires it.  Waiters
 * of a former file of the number are appended to out.
 * Returns MULTI_LINKED; MULTI_AGAIN: not linked, since something has changed: poll again; otherwise
 * an error of the poller: -ENOMEM, -ENOSPC: no room; -ELOOP, -EINVAL: an epoll descriptor that it
 * cannot watch.
 */
int multi_link(struct multi_entry *e, int fd, struct glist *out);
/* The same without multi_look, for a file that gmp does not know: arming reports what is ready.
 * MULTI_AGAIN also if gmp knows the file. */
int multi_link_unknown(struct multi_entry *e, int fd, struct glist *out);

/*
 * A read of a file that gmp does not know, which waits by a persistent registration.
 *
 * seen    multi_seen before the attempt; 0: not read, which equals no count: MULTI_CHANGED
 * socket  os_socket_id, compared with that of the registration; 0: not compared; NO_SOCKET: the
 *         file has no id: the registration counts as absent
 * begin   make the registration if it is absent; the caller knows that the file may have one
 */
struct multi_read {
	uint64_t seen, socket;
	bool begin;
};

/*
 * Link the entry, which asks for POLLIN.
 * Returns MULTI_LINKED; or, not linked: MULTI_AGAIN: gmp knows the file; MULTI_CHANGED: an event
 * came since r->seen: attempt again; MULTI_ABSENT: there is no persistent registration of that
 * file; an error as multi_link does.
 */
int multi_link_read(struct multi_entry *e, int fd, const struct multi_read *r, struct glist *out);

/* The registration that multi_link_read made may be of another socket than the caller read the id
 * of: no wait may rely on it (MULTI-7). */
void multi_forget_socket(int fd);

/* The events of fd's read side, to be read before an attempt; never 0 if there is a record. */
static inline uint64_t multi_seen(int fd)
{
	struct polldesc *pd = netpoll_find(fd);

	return pd ? (uint64_t)1 << 32 | ld_acq(&pd->side[SIDE_READ].events) /* ORD(pd.events) */
		  : 0;
}

/* Note that a read was short, whose attempt came after seen. */
static inline void multi_set_drained(int fd, uint64_t seen)
{
	struct polldesc *pd = netpoll_find(fd);

	if (pd && seen)
		st_rlx(&pd->side[SIDE_READ].drained, (uint32_t)seen);
}

/* Was there no event since a short read that left nothing (MULTI-8)?  seen: multi_seen, not 0. */
static inline bool multi_is_drained(int fd, uint64_t seen)
{
	struct polldesc *pd = netpoll_find(fd);

	return pd && ld_rlx(&pd->side[SIDE_READ].drained) == (uint32_t)seen && !ld_rlx(&pd->hup);
}

/* A short read of the fd does not mean that nothing is left. */
static inline void multi_always_attempt(int fd)
{
	struct polldesc *pd = netpoll_find(fd);

	if (pd)
		st_rlx(&pd->hup, true);
}

/* Unlink the entry from its record, if it is linked. */
void multi_unlink(struct multi_entry *e);

#endif
