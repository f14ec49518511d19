/* SPDX-License-Identifier: MIT */
/*
 * Poll record: what the runtime knows of one fd number.
 *
 * Invariants of its fields: netpoll.h; of its owners: netpoll/owner.c; of its entries:
 * netpoll/multi.c.  Access rules (a), (c): types.h.
 */
#ifndef GMP_RECORD_H
#define GMP_RECORD_H

#include "base/os.h"
#include "types.h"

enum { SIDE_READ, SIDE_WRITE };

/* One call of gmp_poll; on its stack.  Lock order: a record's lock, then this one. */
struct multi {
	struct lock lock;
	bool fired; /* under lock: an fd may be ready; never cleared while an entry is linked */
	int result; /* under lock: 0, or -ESRCH, valid with fired */
	struct sudog *sg; /* (c) of the caller; in no queue */
};

/* What a call has seen of a record: multi_look. */
struct multi_seen {
	uint32_t events[2]; /* of the sides, before the last attempt or poll(2) (NETPOLL-2) */
	uint32_t closes;    /* before the first (MULTI-7) */
};

/* One fd of the call; linked in its record, under pd->lock. */
struct multi_entry {
	struct multi_entry *next, *prev;
	struct multi *of;
	struct polldesc *pd;    /* NULL: not linked */
	struct multi_seen seen; /* before the attempt */
	int64_t since; /* when the call began to wait; NEVER: it is served last (MULTI-9) */
	short events;  /* poll(2)'s */
	short all;     /* under pd->lock: MULTI-6 */
	bool closed;   /* written under pd->lock: the number was closed; stays */
};

struct pollside {
	uint32_t events;  /* (a) written under pd->lock */
	uint32_t drained; /* (a) a short read at this count: no data until the next event */
	struct sudog *head, *tail; /* under pd->lock; head also (a) for unlocked reads */
	int64_t deadline;          /* (a) written under pd->lock; NEVER: none */
	bool token_out;            /* (a) written under pd->lock: a waiter has the token */
	/* under pd->lock, for OWNER-3: the G that parked last */
	uint16_t user_generation; /* lowest bits of its generation */
	uint32_t user;            /* its g.token; 0: none */
};

/* How many sides may have an armed timer: TIMER-4. */
#ifdef SAN_THREAD
enum { DEADLINES_MAX = 1 << 16 };
#else
enum { DEADLINES_MAX = 1 << 20 };
#endif

/*
 * polldesc.plain: what is known of the kind of file; 0: nothing.
 *   PD_PLAIN  a call has found out that it is no socket.  Of a file that gmp does not know it may
 *             be stale, and saves an attempt as a socket (posix/io/readwrite.c).
 *   PD_SHORT  reads and writes are shortened (variant/chaos.h)
 */
enum { PD_PLAIN = 1, PD_SHORT = 2 };

/*
 * polldesc.ended: after a shutdown for which the kernel returns EAGAIN, the result of calls that
 * receive and find no data.
 *   PD_GOES_ON           not shut down
 *   PD_ENDS              the end of the stream
 *   PD_ENDS_WITH_EINVAL  -EINVAL
 */
enum pd_end { PD_GOES_ON = 0, PD_ENDS = 1, PD_ENDS_WITH_EINVAL = 2 };

/* The thread that has adopted an fd: a G, by its g struct and generation, or an external thread, by
 * its kernel thread id. */
struct adopter {
	uint32_t id;  /* 0: none; generation + 1, or the kernel thread id */
	struct g *gp; /* NULL: an external thread, or none */
};

/*
 * polldesc.use
 *   bit 31      PD_OPEN: gmp knows the number's file.  Set by netpoll_open under pd->lock, cleared
 *               by netpoll_forget.
 *   bit 30      PD_CLOSING: a close or release is under way; set only with PD_OPEN.  Set by
 *               netpoll_shut under pd->lock, cleared by netpoll_forget.
 *   bit 29      PD_LOST: a call runs owner_join first.  Written under pd->lock.  May be set though
 *               no living thread has lost the number; must be set if one has (OWNER-2).
 *   bits 0..28  system calls under way (NETPOLL-4).  May be too high for a moment, by a call that
 *               finds the record closed; never too low.
 */
enum pd_use {
	PD_OPEN = 1u << 31,
	PD_CLOSING = 1u << 30,
	PD_LOST = 1u << 29,
	PD_COUNT = PD_LOST - 1
};

_Static_assert((PD_COUNT & (PD_OPEN | PD_CLOSING | PD_LOST)) == 0, "the count has bits of its own");

/* The fields that a call reads are in two cache lines. */
struct polldesc {
	struct lock lock;
	uint32_t use;    /* (a) enum pd_use */
	uint32_t seq;    /* (a) written under lock: number of the registration (NETPOLL-9) */
	int fd;          /* (c) */
	bool hup;        /* (a) the peer hung up, an error is pending, or the poller does not report
			  * urgent data: always try */
	bool tcp;        /* (a) constant while open: a short read has drained it */
	uint8_t to_disk; /* (a) constant while open: sides of a file that access the disk */
	uint8_t plain;   /* (a) see above */
	bool blocking;   /* constant while open: it was blocking when it was adopted */
	uint8_t ended;   /* (a) written under lock: enum pd_end */
	bool multi;      /* (a) written under lock: entries is not NULL */
	bool polled;     /* under lock: its registration is one-shot, for polls (MULTI-5) */
	uint32_t closes; /* (a) written under lock: how often the number was closed (MULTI-7) */
	struct multi_entry *entries; /* under lock, (a) for a prefetch: calls of gmp_poll */
	struct pollside side[2];
	gmp_mutex write_all_lock; /* held by a write_all: two do not interleave */
	struct timer timer[2];
	int64_t armed[2]; /* under lock: the time of the armed timer; NEVER: not armed */
	/* under lock: must be set if the kernel may still have a registration of a former file of
	 * the number, which a plain close() left because a dup is open; may be set without one */
	bool orphaned;
	/* set by netpoll_shut, valid until netpoll_forget */
	bool gone;       /* the number has another file, or none; unknown (false) if not pollable */
	bool taken;      /* with gone: gmp_poll waits for that file */
	uint32_t opened; /* (a) written under lock: the seq that netpoll_open made */
	uint32_t era;    /* under lock: the seq that the era began with (netpoll/owner.c) */
	uint32_t joined; /* (a) written under lock: g.token of the last owner_join; 0: none */
	struct adopter owner;  /* OWNER-1 */
	struct former *former; /* OWNER-2; NULL: no thread has lost the number yet */
	uint64_t file; /* (a) constant while open: id of a file that cannot be polled; 0: it can */
} __attribute__((aligned(64)));

enum { POLL_CHUNK = 1024, POLL_CHUNKS = 16 * 1024 };
extern struct polldesc **netpoll_chunks; /* (c) address space for POLL_CHUNKS; (a) entries */

/* The record of an fd number; NULL: there was none so far. */
static inline struct polldesc *netpoll_find(int fd)
{
	if (unlikely(fd < 0 || fd >= POLL_CHUNK * POLL_CHUNKS))
		return NULL;
	struct polldesc *chunk = ld_acq(&netpoll_chunks[fd / POLL_CHUNK]); /* ORD(pd.chunk) */

	return chunk ? &chunk[fd % POLL_CHUNK] : NULL;
}

/* Step 1 of netpoll/multi.c: before a call's first attempt or poll(2), and again before each later
 * one.  pd: NULL if the number has no record. */
static inline void multi_look_again(struct multi_seen *seen, struct polldesc *pd)
{
	for (int i = 0; i < 2; i++)
		seen->events[i] = pd ? ld_acq(&pd->side[i].events) : 0; /* ORD(pd.events) */
}

static inline struct multi_seen multi_look(struct polldesc *pd)
{
	struct multi_seen seen = { .closes = pd ? ld_acq(&pd->closes) : 0 }; /* ORD(pd.events) */

	multi_look_again(&seen, pd);
	return seen;
}

/* Is it a TCP connection?  Also under chaos, where a short read does not mean that no data is
 * left. */
static inline bool netpoll_is_tcp(struct polldesc *pd)
{
	return ld_rlx(&pd->tcp) || ld_rlx(&pd->plain) == PD_SHORT;
}

/* NETPOLL-6: calls of that side fail with -ETIMEDOUT. */
static inline bool netpoll_late(struct pollside *s)
{
	int64_t deadline = ld_rlx(&s->deadline);

	return unlikely(deadline != NEVER) && deadline <= rt_now();
}

/* Begin a system call on the fd; netpoll_unuse ends it.  Returns false if the record is not
 * open. */
static inline bool netpoll_use(struct polldesc *pd)
{
	uint32_t old = add_seq(&pd->use, 1); /* ORD(pd.use): before the system call */

	if (likely((old & (PD_OPEN | PD_CLOSING)) == PD_OPEN))
		return true;
	sub_seq(&pd->use, 1); /* ORD(pd.use) */
	return false;
}

static inline void netpoll_unuse(struct polldesc *pd)
{
	sub_seq(&pd->use, 1); /* ORD(pd.use): after the system call */
}

/* How many system calls are under way. */
static inline uint32_t netpoll_used(struct polldesc *pd)
{
	return ld_seq(&pd->use) & PD_COUNT; /* ORD(pd.use) */
}

#endif
