/* SPDX-License-Identifier: MIT */
/*
 * Poll record: what the runtime knows of one descriptor number.
 *
 * The invariants N1 to N9 of its fields are in netpoll.h, those of its owners in netpoll/owner.c.
 */
#ifndef GMP_RECORD_H
#define GMP_RECORD_H

#include "base/os.h"
#include "types.h"

enum { SIDE_READ, SIDE_WRITE };

struct multi_entry;

struct pollside {
	uint32_t events;  /* (a) written under pd->lock */
	uint32_t drained; /* (a) a short read at this count: nothing is left until the next */
	struct sudog *head, *tail; /* under pd->lock; head also (a) for a look */
	int64_t deadline;          /* (a) written under pd->lock; NEVER: none */
	bool token_out;            /* (a) written under pd->lock: somebody woken is to try first */
	uint16_t user_generation;  /* under pd->lock: of the user, its lowest bits */
	uint32_t
		user; /* under pd->lock: token of the green thread that parked last; 0: none (netpoll/owner.c) */
};

/* Sides that may have an armed timer at a time (timerheap.h T4). */
#ifdef SAN_THREAD
enum { DEADLINES_MAX = 1 << 16 };
#else
enum { DEADLINES_MAX = 1 << 20 };
#endif

/* polldesc.plain */
enum { PD_PLAIN = 1, PD_SHORT };

/* polldesc.ended: what the calls that receive say once there is nothing, where the kernel says EAGAIN to a
 * try though it has been shut down: the end, or -EINVAL. */
enum pd_end { PD_GOES_ON, PD_ENDS, PD_ENDS_WITH_EINVAL };

/* The thread that has adopted a descriptor: a green one by its g struct and generation, or an external one by
 * its number. */
struct adopter {
	uint32_t id;  /* 0: none; generation + 1, or the kernel's thread number */
	struct g *gp; /* NULL: an external thread, or none */
};

/*
 * polldesc.use
 *   bit 31      PD_OPEN: gmp knows the number's file
 *   bit 30      PD_CLOSING: a close or release is under way; set only with PD_OPEN
 *   bit 29      PD_LOST: calls go by owner_join first.  Written under pd->lock.  May be set although no living
 *               thread has lost the number; must be set if one has (OWNER-2)
 *   bits 0..28  system calls under way
 */
enum pd_use {
	PD_OPEN = 1u << 31,
	PD_CLOSING = 1u << 30,
	PD_LOST = 1u << 29,
	PD_COUNT = PD_LOST - 1
};

/* What a call looks at lies in two cache lines. */
struct polldesc {
	struct lock lock;
	uint32_t use;    /* (a) enum pd_use */
	uint32_t seq;    /* (a) written under lock: number of the registration */
	int fd;          /* (c) */
	bool hup;        /* (a) the peer hung up or an error stands: always try */
	bool tcp;        /* (a) constant while open: a short read has drained it */
	uint8_t to_disk; /* (a) constant while open: a file's sides that ask the disk each time */
	uint8_t plain; /* (a) PD_PLAIN: a call has found out that it is no socket; PD_SHORT: mode/chaos.h */
	bool blocking; /* constant while open: it was so when it was adopted */
	uint8_t ended; /* (a) written under lock: enum pd_end */
	bool multi;    /* (a) written under lock: entries is not NULL */
	uint64_t
		file; /* (a) constant while open: it cannot be polled, and is that file; 0: it can */
	struct pollside side[2];
	gmp_mutex whole; /* held by a write_all, so that two do not interleave */
	struct timer timer[2];
	int64_t armed[2]; /* under lock: for when that timer is in a heap; NEVER: it is in none */
	/* what plain close() calls left behind; under lock */
	bool orphaned; /* may be set though it is none; must be set if the kernel may still have a
			  registration of a former file of the number, of which a dup is open */
	bool polled; /* under lock: the registration is one-shot, for gmp_poll (netpoll/multi.c) */
	/* set by netpoll_shut, valid until netpoll_forget */
	bool gone; /* the number has another file, or none; may be false for files that cannot be polled */
	bool taken;      /* with gone: and gmp_poll waits for that file */
	uint32_t opened; /* (a) written under lock: the seq that netpoll_open made */
	uint32_t era;    /* under lock: the seq that the era began with (netpoll/owner.c) */
	uint32_t
		joined; /* (a) written under lock: token of the last caller of owner_join; 0: none */
	struct adopter owner;        /* OWNER-1 */
	struct former *former;       /* OWNER-2; NULL: no thread has lost the number so far */
	struct multi_entry *entries; /* under lock: calls of gmp_poll */
} __attribute__((aligned(64)));

enum { POLL_CHUNK = 1024, POLL_CHUNKS = 16 * 1024 };
extern struct polldesc **netpoll_chunks; /* (c) address space for POLL_CHUNKS; (a) entries */

/* The record of a number that the poller has or had; NULL otherwise. */
static inline struct polldesc *netpoll_find(int fd)
{
	if (unlikely(fd < 0 || fd >= POLL_CHUNK * POLL_CHUNKS))
		return NULL;
	struct polldesc *chunk = ld_acq(&netpoll_chunks[fd / POLL_CHUNK]); /* ORD(pd.chunk) */

	return chunk ? &chunk[fd % POLL_CHUNK] : NULL;
}

/* Also where a short read says nothing because reads are cut short (mode/chaos.h). */
static inline bool netpoll_is_tcp(struct polldesc *pd)
{
	return ld_rlx(&pd->tcp) || ld_rlx(&pd->plain) == PD_SHORT;
}

/* N6: calls of that side are over with -ETIMEDOUT. */
static inline bool netpoll_late(struct pollside *s)
{
	int64_t deadline = ld_rlx(&s->deadline);

	return unlikely(deadline != NEVER) && deadline <= rt_now();
}

/* Around each system call: false if the record is not open (any more). */
static inline bool netpoll_use(struct polldesc *pd)
{
	uint32_t old = add_seq(&pd->use, 1); /* ORD(pd.use): before the call reads the number */

	if (likely((old & (PD_OPEN | PD_CLOSING)) == PD_OPEN))
		return true;
	sub_seq(&pd->use, 1); /* ORD(pd.use) */
	return false;
}

static inline void netpoll_unuse(struct polldesc *pd)
{
	sub_seq(&pd->use, 1); /* ORD(pd.use): after the call */
}

static inline uint32_t netpoll_used(struct polldesc *pd)
{
	return ld_seq(&pd->use) & PD_COUNT; /* ORD(pd.use) */
}

#endif
