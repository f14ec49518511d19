/* SPDX-License-Identifier: MIT */
/*
 * Trace events: emitters that write fixed records into a ring of the calling OS thread.
 *
 * A probe of the scheduler costs one predicted branch while nothing is recorded: it tests
 * `gmp__recording`, and calls gmp__emit if that is not 0.  Each OS thread that emits an event gets
 * a ring of its own: an M, sysmon, an external thread, and a G without a P or in blocking code by
 * the thread that it runs on.  One collector (observe/trace/tracefile.c) reads all rings.
 *
 *   the thread that emits                          the collector
 *    1 a session is on (gmp__recording)             1 end = written (acquire)
 *    2 reserved = written + n                       2 if end - read > size: the oldest are lost,
 *    3 light fence              ORD(emit.session)     read = end - size
 *    4 if the session is over: reserved = written,  3 copy the records from `read` on
 *      return                                       4 fence (acquire); r = reserved
 *    5 fence (release)          ORD(emit.record)    5 records before r - size are lost: they may
 *    6 write n records                                have been overwritten during step 3
 *    7 written = reserved (release)                   ORD(emit.record)
 *
 *   the end of a session: session = 0; heavy fence (membarrier)   ORD(emit.session); then wait
 *   for each ring until reserved == written; then steps 1 to 5 once more.
 *
 * Steps 2 to 4 and the end of a session are a store-buffering pair (Dekker): each side writes,
 * fences, and reads what the other side writes.  Either the thread sees that the session is over,
 * or the end of the session sees that the ring is in use, and waits.
 *
 * Invariants
 *   EMIT-1  Only its own thread writes to a ring, and it never waits: a full ring loses its oldest
 *           records.
 *   EMIT-2  The collector uses only records that were complete and not overwritten; it counts the
 *           others as lost.
 *   EMIT-3  After the end of a session no thread writes a record of it.  (It may still write
 *           `reserved` and set it back.)  So a later session reads no record of an earlier one, and
 *           the last pass of the collector reads all events that were emitted.
 *   EMIT-4  A ring belongs to one thread as long as it exists.  It is freed when that thread has
 *           ended, or at the end of the run, when no thread is inside of the runtime.  A thread
 *           compares the session beside its pointer with the first one of the run (ring_attach).
 *
 * Verified by model/emit.pml.
 *
 * Rejected
 *   Encoding in the emitter (Go): the varints cost more than four stores.  A ring for each P: a
 *   thread without a P emits too, and the P can be taken between two stores.  Waiting for room: the
 *   program would depend on the disk.
 */
#ifndef GMP_EMIT_H
#define GMP_EMIT_H

#include "base/atomic.h"
#include "base/base.h"

enum event {
	EVENT_NONE,
#define EVENT(name, text, small, a, b, c, has_text, help) EVENT_##name,
#include "base/event.def"
#undef EVENT
	EVENTS,
	EVENT_MORE = 255, /* in rings only: a part of the text of the event before it */
};

/* Codes in events. */
enum event_queue { QUEUE_RUNNEXT, QUEUE_RING, QUEUE_GLOBAL, QUEUE_YIELDED, QUEUE_FRONT };
enum event_thread { THREAD_WRITER, THREAD_M, THREAD_SYSMON, THREAD_EXTERNAL };
enum event_label { LABEL_REASON, LABEL_CAUSE, LABEL_QUEUE, LABEL_STATE, LABEL_THREAD, LABEL_P };

/*
 * A record: word 0 has the type in bits 0..7, the small argument in bits 8..15, and the lower 48
 * bits of cpu_ticks above; words 1 to 3 are a, b, c.  The collector knows the time to within hours,
 * so 48 bits suffice.  EVENT_MORE: the small argument is the number of bytes in words 1 to 3.
 */
struct record {
	uint64_t word[4]; /* (a) */
};

enum {
	RECORD_TICKS_SHIFT = 16,
	RECORD_TEXT = 24,      /* bytes of a text in a record */
	EVENT_TEXT_MOST = 240, /* a longer text is truncated */
	RING_LARGE = 1u << 16, /* records of a ring: 2 MiB */
	RING_SMALL = 1u << 12, /* of the rings after the first RINGS_LARGE */
	RINGS_LARGE = 64,
	RINGS_MOST = 8192, /* further threads emit nothing: their events are lost, and counted */
};

struct ring {
	/* of its thread */
	uint64_t reserved; /* (a) records written, and being written */
	uint64_t written;  /* (a) records that are complete */
	uint64_t mask;     /* (c) size - 1 */
	/* of the collector */
	uint64_t read aligned_to(CACHE_LINE); /* (o) */
	struct ring *next;                    /* (o) in the list of all; set before the push */
	uint32_t announced;                   /* (o) the session in whose file it has an event */
	uint32_t number;                      /* (c) of the thread in the file, from 1 on */
	int tid;                              /* (c) of its OS thread */
	struct record slot[] aligned_to(CACHE_LINE);
};

/*
 * What is recorded; 0: nothing.  Bit 0, RECORD_CPU: the time that each G runs.  The other bits are
 * the number of the session whose events are recorded; 0: no events.
 */
extern uint32_t gmp__recording __attribute__((visibility("hidden"))); /* (a) */

enum { RECORD_CPU = 1, RECORD_SESSION = 2 }; /* sessions are multiples of RECORD_SESSION */

/* Is something recorded?  The branch of each probe. */
static inline uint32_t recording(void)
{
	return ld_rlx(&gmp__recording);
}

/* Emit an event.  what: recording().  Any thread; not in a signal handler.  The first event of a
 * thread maps its ring, on any stack: mmap is all that it calls. */
void gmp__emit(uint32_t what, enum event type, unsigned small, uint64_t a, uint64_t b, uint64_t c);
/* The same with a text. */
void gmp__emit_text(uint32_t what, enum event type, uint64_t a, const char *text, size_t n);

/* For a path that is not hot: test and emit. */
static inline void emit(enum event type, unsigned small, uint64_t a, uint64_t b, uint64_t c)
{
	uint32_t what = recording();

	if (unlikely(what != 0))
		gmp__emit(what, type, small, a, b, c);
}

/* --- the collector: one at a time --- */

/* Begin a session.  asymmetric: os_membarrier works, as in all earlier sessions.  Returns its
 * number. */
uint32_t emit_begin(bool asymmetric);
/* End it: on return no thread writes a record (EMIT-3).  The rings can still be read. */
void emit_end(void);
/* Return the memory of the rings to the kernel, after the last read of a session. */
void emit_discard(void);
/* End of a run, no thread is inside of the runtime: free the rings. */
void emit_fini(void);
/* In the child of a fork: no session, no rings. */
void emit_forget(void);

/* Copy at most `most` records of a ring to out, and remove them.  Returns their number, which may
 * be 0 although records are left; *lost: how many before them were overwritten, or were about to be
 * by an event that is given up (step 4).  After a loss the first records may be EVENT_MORE, and
 * `most` may part a text from its event. */
unsigned ring_read(struct ring *r, struct record *out, unsigned most, uint64_t *lost);
/* Are records left? */
bool ring_is_empty(const struct ring *r);
/* The list of rings, the newest first. */
struct ring *emit_rings(void);
/* Free the rings that are empty and whose threads have ended, except the newest. */
void emit_free_ended(void);
/* Events of threads that got no ring, in this session. */
uint64_t emit_refused(void);

/* Switch the accounting of running time (RECORD_CPU). */
void emit_account(bool on);

#endif
