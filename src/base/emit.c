/* SPDX-License-Identifier: MIT */
/* Trace events: rings and emitters; see emit.h. */
#include "base/emit.h"

#include <string.h>

#include "base/os.h"
#include "base/tls.h"

uint32_t gmp__recording;

static struct {
	struct ring *rings; /* (a) pushed by any thread, unlinked by the collector */
	uint32_t n;         /* (a) rings in the list */
	uint32_t numbers;   /* (a) numbers given so far */
	uint32_t session;   /* (o) the last one */
	uint32_t first;     /* (a) the first session of this run */
	uint64_t refused;   /* (a) */
	bool asymmetric;    /* (a) os_membarrier works; may be stale only as false, which is safe */
} emits;

static uint32_t session_of(uint32_t what)
{
	return what & ~(uint32_t)RECORD_CPU;
}

/* --- rings --- */

static size_t ring_bytes(uint64_t mask)
{
	return round_up(sizeof(struct ring) + (size_t)(mask + 1) * sizeof(struct record), PAGE);
}

static void ring_free(struct ring *r)
{
	os_release(r, ring_bytes(r->mask));
	add_rlx(&emits.n, -1u);
}

/* Returns NULL without memory. */
static struct ring *ring_new(void)
{
	uint32_t n = add_rlx(&emits.n, 1);
	uint64_t mask = (n < RINGS_LARGE ? RING_LARGE : RING_SMALL) - 1;
	struct ring *r = n < RINGS_MOST ? os_reserve(ring_bytes(mask)) : NULL;
	struct ring *first = ld_rlx(&emits.rings);

	if (!r) {
		add_rlx(&emits.n, -1u);
		return NULL;
	}
	r->mask = mask;
	r->tid = os_thread_id();
	r->number = add_rlx(&emits.numbers, 1) + 1;
	do
		r->next = first;
	while (!cas_rel(&emits.rings, &first, r)); /* ORD(emit.record): the fields of the ring */
	return r;
}

/* The thread emits its first event of a session.  Returns its ring, or NULL. */
static noinline struct ring *ring_attach(struct ring_ref *ref, uint32_t session)
{
	bool has_ring = ref->ring && (int32_t)(ref->session - ld_rlx(&emits.first)) >= 0;

	if (!has_ring)
		ref->ring = ring_new();
	ref->session = session;
	return ref->ring;
}

/* --- emitting --- */

/* Steps 2 to 5.  Returns false if the session is over. */
static inline bool ring_reserve(struct ring *r, uint64_t at, unsigned n, uint32_t session)
{
	st_rlx(&r->reserved, at + n);
	fence_light(); /* ORD(emit.session) */
	if (unlikely(!ld_rlx(&emits.asymmetric)))
		fence_seq(); /* ORD(emit.session) */
	if (unlikely(session_of(ld_rlx(&gmp__recording)) != session)) {
		st_rlx(&r->reserved, at);
		return false;
	}
	fence_rel(); /* ORD(emit.record): `reserved` is visible before a record changes */
	return true;
}

static inline void ring_put(struct ring *r, uint64_t at, uint64_t head, uint64_t a, uint64_t b,
			    uint64_t c)
{
	struct record *to = &r->slot[at & r->mask];

	st_rlx(&to->word[0], head);
	st_rlx(&to->word[1], a);
	st_rlx(&to->word[2], b);
	st_rlx(&to->word[3], c);
}

static inline uint64_t record_head(unsigned type, unsigned small)
{
	return cpu_ticks() << RECORD_TICKS_SHIFT | (small & 0xff) << 8 | type;
}

/* The ring of the calling thread in this session; NULL: its event is lost. */
static inline struct ring *own_ring(uint32_t session)
{
	struct ring_ref *ref = gmp__ring_ref();
	struct ring *r = ref->ring;

	if (unlikely(ref->session != session))
		r = ring_attach(ref, session);
	if (unlikely(!r))
		add_rlx(&emits.refused, 1);
	return r;
}

void gmp__emit(uint32_t what, enum event type, unsigned small, uint64_t a, uint64_t b, uint64_t c)
{
	uint32_t session = session_of(what);
	struct ring *r = session ? own_ring(session) : NULL;

	if (!r)
		return;
	uint64_t at = r->written; /* only this thread writes it */

	if (!ring_reserve(r, at, 1, session))
		return;
	ring_put(r, at, record_head(type, small), a, b, c);
	st_rel(&r->written, at + 1); /* ORD(emit.record) */
}

void gmp__emit_text(uint32_t what, enum event type, uint64_t a, const char *text, size_t n)
{
	uint32_t session = session_of(what);
	struct ring *r = session ? own_ring(session) : NULL;

	if (!r)
		return;
	n = min_of(n, (size_t)EVENT_TEXT_MOST);
	unsigned parts = (unsigned)((n + RECORD_TEXT - 1) / RECORD_TEXT);
	uint64_t at = r->written;

	if (!ring_reserve(r, at, parts + 1, session))
		return;
	ring_put(r, at++, record_head(type, 0), a, 0, 0);
	for (size_t from = 0; from < n; from += RECORD_TEXT) {
		size_t some = min_of(n - from, (size_t)RECORD_TEXT);
		uint64_t part[3] = { 0 };

		memcpy(part, text + from, some);
		ring_put(r, at++, record_head(EVENT_MORE, (unsigned)some), part[0], part[1],
			 part[2]);
	}
	st_rel(&r->written, at); /* ORD(emit.record) */
}

/* --- the collector --- */

struct ring *emit_rings(void)
{
	return ld_acq(&emits.rings); /* ORD(emit.record) */
}

bool ring_is_empty(const struct ring *r)
{
	return ld_rlx(&r->written) == r->read;
}

unsigned ring_read(struct ring *r, struct record *out, unsigned most, uint64_t *lost)
{
	uint64_t size = r->mask + 1, end = ld_acq(&r->written); /* ORD(emit.record) */
	uint64_t from = r->read;

	*lost = 0;
	if (end - from > size)
		from = end - size;
	unsigned n = (unsigned)min_of(end - from, (uint64_t)most);

	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < countof(out->word); k++)
			out[i].word[k] = ld_rlx(&r->slot[(from + i) & r->mask].word[k]);
	fence_acq(); /* ORD(emit.record): `reserved` after the records */
	uint64_t reserved = ld_rlx(&r->reserved);
	uint64_t intact = reserved > size ? reserved - size : 0; /* records from here on */
	unsigned bad = intact > from ? (unsigned)min_of(intact - from, (uint64_t)n) : 0;

	*lost = from - r->read + bad;
	r->read = from + n;
	memmove(out, out + bad, (n - bad) * sizeof(*out));
	return n - bad;
}

uint32_t emit_begin(bool asymmetric)
{
	emits.session += RECORD_SESSION;
	if (emits.session == 0) /* wrapped: 0 means no session */
		emits.session = RECORD_SESSION;
	for (struct ring *r = emit_rings(); r; r = r->next)
		r->read = ld_rlx(&r->written); /* EMIT-3: none is being written */
	st_rlx(&emits.refused, (uint64_t)0);
	st_rlx(&emits.asymmetric, asymmetric);
	or_rlx(&gmp__recording, emits.session); /* no session is on */
	return emits.session;
}

void emit_end(void)
{
	and_rlx(&gmp__recording, (uint32_t)RECORD_CPU);
	if (ld_rlx(&emits.asymmetric))
		os_membarrier(); /* ORD(emit.session) */
	else
		fence_seq(); /* ORD(emit.session) */
	for (struct ring *r = emit_rings(); r; r = r->next)
		/* a few stores of a thread that the kernel may have descheduled */
		while (ld_rlx(&r->reserved) != ld_acq(&r->written)) /* ORD(emit.record) */
			os_yield();
}

void emit_discard(void)
{
	for (struct ring *r = emit_rings(); r; r = r->next) {
		size_t head = round_up(sizeof(*r), PAGE);

		os_discard((char *)r + head, ring_bytes(r->mask) - head);
	}
}

/* Unlink and free the rings after `prev`, and the first one, of ended threads. */
void emit_free_ended(void)
{
	struct ring *prev = emit_rings(), *r;

	/* a push may make the first ring another one's successor, so the first one stays */
	while (prev && (r = prev->next)) {
		/* re-check: the thread may have emitted before its end */
		if (ring_is_empty(r) && !os_thread_exists(r->tid) && ring_is_empty(r)) {
			prev->next = r->next;
			ring_free(r);
		} else {
			prev = r;
		}
	}
}

uint64_t emit_refused(void)
{
	return ld_rlx(&emits.refused);
}

void emit_fini(void)
{
	struct ring *r = emit_rings(), *next;

	for (; r; r = next) {
		next = r->next;
		ring_free(r);
	}
	emit_forget();
}

void emit_forget(void)
{
	st_rlx(&gmp__recording, 0u);
	st_rlx(&emits.rings, (struct ring *)NULL);
	st_rlx(&emits.n, 0u);
	st_rlx(&emits.first, emits.session + RECORD_SESSION);
}

void emit_account(bool on)
{
	if (on)
		or_rlx(&gmp__recording, (uint32_t)RECORD_CPU);
	else
		and_rlx(&gmp__recording, ~(uint32_t)RECORD_CPU);
}
