/* SPDX-License-Identifier: MIT */
/* The collector of trace events; see observe/trace/tracefile.h. */
#include "observe/trace/tracefile.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/emit.h"
#include "base/os.h"
#include "base/symtab.h"
#include "g.h"
#include "monitor/sysmon.h"
#include "observe/dump/snapshot.h"
#include "observe/latency.h"
#include "proc.h"
#include "runq.h"

enum {
	FULL_NS = 1 * MS, /* until the next pass, if a ring was a quarter full */
	IDLE_NS = 5 * MS, /* otherwise: a ring of 65,536 records then holds 13 million events/s */
	SNAPSHOT_NS = 10 * MS,  /* between two snapshots of the run queues */
	ROOM_NS = 1 * MS,       /* between two writes to a pipe without room */
	PATIENCE_NS = 100 * MS, /* TRACEFILE-4; not measured */
	ENDED_NS = S,           /* between two searches for rings of threads that have ended */
	COLLECTOR_STACK = 128 * 1024,
	BATCH = 512,            /* records that are copied from a ring at a time */
	OUT_BYTES = 256 * 1024, /* of the output buffer */
	RECORD_BYTES = 64,      /* of an encoded event without a text, at most */
	BLOCK_HEAD = 16,
	TEXT_BYTES = EVENT_TEXT_MOST + 16,
	SYMBOLS = 4096, /* entry functions that are named: a hash table of addresses */
	VERSION = 1,
	HEADER_BYTES = 48
};

/* Which arguments each event has. */
static const struct event_fields {
	bool small, a, b, c, text;
} event_fields[EVENTS] = {
#define EVENT(name, word, small, a, b, c, has_text, help)                                          \
	[EVENT_##name] = { sizeof(small) > 1, sizeof(a) > 1, sizeof(b) > 1, sizeof(c) > 1,         \
			   has_text },
#include "base/event.def"
#undef EVENT
};

static struct {
	pthread_t thread;
	uint32_t stop; /* (a) futex */
	int fd;
	bool is_stream;     /* TRACEFILE-4 */
	int64_t full_since; /* of a stream, while it ends: time of the first write without room */
	int err;            /* of a write */
	uint32_t session;
	uint64_t written, lost; /* events */
	int64_t snapshot_at, ended_at;
	/* the output: whole blocks, and the block that is being filled */
	size_t n;
	size_t block;      /* where its head begins; n: none is open */
	uint64_t ticks;    /* of the last event of the block */
	uint64_t now;      /* cpu_ticks, to complete the 48 bits of records */
	uint8_t text_type; /* a text event whose parts follow, or EVENT_NONE */
	uint64_t text_ticks, text_a;
	size_t text_n;
	char text[TEXT_BYTES];
	uintptr_t symbols[SYMBOLS];
	uintptr_t fresh[64]; /* of these, the functions whose names are not written yet */
	unsigned nfresh;
	struct record batch[BATCH];
	unsigned char out[OUT_BYTES];
} * file; /* NULL: no session */

/* --- output --- */

/* Return whether to wait for room. */
static bool waits_for_room(void)
{
	bool ends = ld_rlx(&sched.state) != RUN_ON;

	if (!file->is_stream)
		return !ends; /* TRACEFILE-3 */
	if (!ends && !ld_rlx(&file->stop))
		return true;
	if (!file->full_since)
		file->full_since = os_now();
	return os_now() < file->full_since + PATIENCE_NS; /* TRACEFILE-4 */
}

static void flush_out(void)
{
	size_t at = 0;

	while (at < file->n && !file->err) {
		ssize_t n = os_retry(write(file->fd, file->out + at, file->n - at));

		if (n >= 0) {
			at += (size_t)n;
			file->full_since = 0;
		} else if (n == -EAGAIN && waits_for_room()) {
			os_nap(ROOM_NS);
		} else {
			file->err = (int)n;
		}
	}
	file->n = file->block = 0;
}

static void put_fixed(uint64_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		file->out[file->n++] = (unsigned char)(v >> (8 * i));
}

static void put_varint(uint64_t v)
{
	while (v >= 0x80) {
		file->out[file->n++] = (unsigned char)(v | 0x80);
		v >>= 7;
	}
	file->out[file->n++] = (unsigned char)v;
}

static void begin_block(uint32_t thread, uint64_t ticks)
{
	if (file->n + BLOCK_HEAD + RECORD_BYTES + TEXT_BYTES > OUT_BYTES)
		flush_out();
	file->block = file->n;
	put_fixed(0, 4); /* the length: end_block */
	put_fixed(thread, 4);
	put_fixed(ticks, 8);
	file->ticks = ticks;
}

static void end_block(void)
{
	size_t at = file->block, end = file->n, length = end - at - BLOCK_HEAD;

	if (length == 0) {
		file->n = at;
	} else {
		file->n = at;
		put_fixed(length, 4);
		file->n = end;
	}
	file->block = file->n;
}

/* Write an event into the open block, which belongs to `thread`. */
static void put_event(uint32_t thread, enum event type, unsigned small, uint64_t ticks,
		      const uint64_t word[3], const char *text, size_t n)
{
	const struct event_fields *has = &event_fields[type];

	if (file->n + RECORD_BYTES + TEXT_BYTES > OUT_BYTES) {
		end_block();
		flush_out();
		begin_block(thread, ticks);
	}
	int64_t since = (int64_t)(ticks - file->ticks);

	file->out[file->n++] = (unsigned char)type;
	put_varint((uint64_t)since << 1 ^ (uint64_t)(since >> 63));
	file->ticks = ticks;
	if (has->a)
		put_varint(word[0]);
	if (has->b)
		put_varint(word[1]);
	if (has->c)
		put_varint(word[2]);
	if (has->small)
		put_varint(small);
	if (has->text) {
		put_varint(n);
		memcpy(file->out + file->n, text, n);
		file->n += n;
	}
	file->written++;
}

/* --- the collector's own events, in blocks of thread 0 --- */

static void put_own(enum event type, unsigned small, uint64_t a, uint64_t b, uint64_t c,
		    const char *text)
{
	uint64_t word[3] = { a, b, c };
	size_t n = text ? strlen(text) : 0;

	put_event(0, type, small, cpu_ticks(), word, text, min_of(n, (size_t)EVENT_TEXT_MOST));
}

static void put_labels(void)
{
	static const char *const queues[] = { "runnext", "local ring", "global queue", "yielded",
					      "front of the local ring" };
	static const char *const threads[] = { "writer", "M", "sysmon", "external" };

	for (unsigned i = 0; i < WAIT_REASONS; i++)
		put_own(EVENT_LABEL, LABEL_REASON, i, 0, 0, wait_kinds[i].text);
	for (unsigned i = 0; i < GMP_LATENCY_CAUSES; i++)
		put_own(EVENT_LABEL, LABEL_CAUSE, i, 0, 0, latency_causes[i]);
	for (unsigned i = 0; i < countof(queues); i++)
		put_own(EVENT_LABEL, LABEL_QUEUE, i, 0, 0, queues[i]);
	for (unsigned i = 0; i <= G_DEAD; i++)
		put_own(EVENT_LABEL, LABEL_STATE, i, 0, 0, snapshot_states[i]);
	for (unsigned i = 0; i < countof(threads); i++)
		put_own(EVENT_LABEL, LABEL_THREAD, i, 0, 0, threads[i]);
	for (unsigned i = 0; i < P_STATUSES; i++)
		put_own(EVENT_LABEL, LABEL_P, i, 0, 0, snapshot_p_states[i]);
}

/* Note an entry function.  Its name is written with the next own events. */
static bool is_new_symbol(uintptr_t fn)
{
	size_t at = (fn * 0x9e3779b97f4a7c15u) >> 52;

	for (unsigned i = 0; i < 16 && fn; i++) {
		uintptr_t *slot = &file->symbols[(at + i) % SYMBOLS];

		if (*slot == fn)
			return false;
		if (!*slot) {
			*slot = fn;
			return true;
		}
	}
	return false; /* the table is full there: it has no name in the file */
}

static void put_symbol(uintptr_t fn)
{
	struct symbol s;

	if (symtab_find_sig(fn, &s) && s.name[0])
		put_own(EVENT_SYMBOL, 0, fn, 0, 0, s.name);
}

static void note_symbol(uintptr_t fn)
{
	if (file->nfresh < countof(file->fresh) && is_new_symbol(fn))
		file->fresh[file->nfresh++] = fn;
}

/* The Gs that exist at the start.  Each is read while it may run: SNAPSHOT-3. */
static void put_greens(void)
{
	for (uint32_t i = 0, made = g_made(); i < made; i++) {
		const struct g *gp = g_at(i);
		uint32_t life = ld_acq(&gp->generation); /* ORD(g.life) */
		uint8_t status = ld_acq(&gp->status);    /* ORD(g.status) */
		char name[G_NAME_MAX];

		g_copy_name(gp, name);
		uint64_t id = ld_rlx(&gp->id);
		uintptr_t fn = (uintptr_t)ld_rlx(&gp->fn);
		uint8_t reason = ld_rlx(&gp->reason);

		fence_acq(); /* ORD(g.life): SNAPSHOT-3 */
		if (status == G_FREE || status == G_DEAD || ld_rlx(&gp->generation) != life)
			continue;
		put_own(EVENT_GREEN, status, id, fn, reason, name);
		if (is_new_symbol(fn))
			put_symbol(fn);
	}
}

static void put_snapshot(void)
{
	int n = ld_acq(&sched.nallp); /* ORD(allp) */

	for (int i = 0; i < n; i++) {
		struct p *pp = sched.allp[i];
		uint32_t ring = runq_ready_len(pp) + (ld_rlx(&pp->runnext) ? 1 : 0);

		put_own(EVENT_P_STATE, ld_rlx(&pp->status) & P_STATUS_MASK, (uint64_t)i, ring,
			ring_len(pp, LANE_YIELD), NULL);
	}
	put_own(EVENT_QUEUES, (unsigned)min_of(ld_rlx(&sched.nmspinning), 255), gq_ready_len(),
		gq_len(LANE_YIELD), (uint64_t)ld_rlx(&sched.nmidle), NULL);
}

static void put_pass(int64_t now)
{
	begin_block(0, cpu_ticks());
	put_own(EVENT_CLOCK, 0, (uint64_t)os_now(), 0, 0, NULL);
	if (now >= file->snapshot_at) {
		file->snapshot_at = now + SNAPSHOT_NS;
		put_snapshot();
	}
	while (file->nfresh > 0)
		put_symbol(file->fresh[--file->nfresh]);
	end_block();
}

/* --- rings --- */

/* The event THREAD of a ring: whose OS thread it is. */
static void announce(struct ring *r)
{
	enum event_thread kind = r->tid == sysmon_tid() ? THREAD_SYSMON : THREAD_EXTERNAL;
	uint64_t word[3] = { (uint64_t)r->tid, 0, 0 };

	lock(&sched.lock, LR_SCHED);
	for (struct m *m = sched.allm; m; m = m->alllink) {
		if (ld_rlx(&m->tid) == r->tid) {
			word[1] = (uint64_t)m->id + 1;
			kind = THREAD_M;
		}
	}
	unlock(&sched.lock, LR_SCHED);
	put_event(r->number, EVENT_THREAD, kind, file->ticks, word, NULL, 0);
	r->announced = file->session;
}

/* The 48 bits of a record, completed: it is at most some hours old, and CPUs may differ. */
static uint64_t full_ticks(uint64_t head)
{
	int64_t behind = (int64_t)((file->now << RECORD_TICKS_SHIFT) - (head & ~(uint64_t)0xffff));

	return file->now - (uint64_t)(behind >> RECORD_TICKS_SHIFT);
}

/* Write the text event whose parts were collected. */
static void end_text(uint32_t thread)
{
	uint64_t word[3] = { file->text_a, 0, 0 };

	if (file->text_type != EVENT_NONE)
		put_event(thread, file->text_type, 0, file->text_ticks, word, file->text,
			  file->text_n);
	file->text_type = EVENT_NONE;
}

static void put_record(uint32_t thread, const struct record *rec)
{
	unsigned type = rec->word[0] & 0xff, small = rec->word[0] >> 8 & 0xff;

	if (type == EVENT_MORE) {
		if (file->text_type != EVENT_NONE && small <= RECORD_TEXT &&
		    file->text_n + small <= EVENT_TEXT_MOST) {
			memcpy(file->text + file->text_n, &rec->word[1], small);
			file->text_n += small;
		}
		return;
	}
	end_text(thread);
	if (type == EVENT_NONE || type >= EVENTS)
		return;
	if (event_fields[type].text) {
		file->text_type = (uint8_t)type;
		file->text_ticks = full_ticks(rec->word[0]);
		file->text_a = rec->word[1];
		file->text_n = 0;
		return;
	}
	put_event(thread, type, small, full_ticks(rec->word[0]), &rec->word[1], NULL, 0);
	if (type == EVENT_SPAWN)
		note_symbol((uintptr_t)rec->word[3]);
}

static void put_lost(struct ring *r, uint64_t lost)
{
	uint64_t word[3] = { lost, 0, 0 };

	if (!lost)
		return;
	file->lost += lost;
	put_event(r->number, EVENT_LOST, 0, file->ticks, word, NULL, 0);
}

/* Up to `end`; and, if records were lost, to the end of a text, whose parts are published at
 * once. */
static bool more_to_read(const struct ring *r, uint64_t end)
{
	return r->read < end || (file->text_type != EVENT_NONE && !ring_is_empty(r));
}

/* Write what a ring holds.  Returns true if it was a quarter full. */
static bool drain(struct ring *r)
{
	uint64_t end = ld_rlx(&r->written), left = end - r->read, lost;
	bool full = left > (r->mask + 1) / 4;

	if (!left)
		return false;
	file->now = cpu_ticks();
	for (bool begun = false; more_to_read(r, end) && !file->err;) {
		uint64_t most = r->read < end ? min_of(end - r->read, (uint64_t)BATCH) : 1;
		unsigned n = ring_read(r, file->batch, (unsigned)most, &lost);

		if (!begun) {
			begin_block(r->number, n ? full_ticks(file->batch[0].word[0]) : file->now);
			if (r->announced != file->session)
				announce(r);
			begun = true;
		}
		if (lost)
			end_text(r->number); /* its last parts are missing */
		put_lost(r, lost);
		for (unsigned i = 0; i < n; i++)
			put_record(r->number, &file->batch[i]);
	}
	end_text(r->number);
	end_block();
	return full;
}

static bool drain_all(void)
{
	bool full = false;

	for (struct ring *r = emit_rings(); r; r = r->next)
		full |= drain(r);
	return full;
}

/* --- the thread --- */

static void put_header(void)
{
	memcpy(file->out, "gmptrace", 8);
	file->n = 8;
	put_fixed(VERSION, 4);
	put_fixed(HEADER_BYTES, 4);
	put_fixed(cpu_ticks(), 8);
	put_fixed((uint64_t)os_now(), 8);
	put_fixed((uint64_t)os_real_now(), 8);
	put_fixed((uint64_t)getpid(), 8);
	begin_block(0, cpu_ticks());
	put_labels();
	end_block();
}

static void put_end(void)
{
	emit_end();
	drain_all();
	put_pass(file->snapshot_at); /* with a snapshot */
	begin_block(0, cpu_ticks());
	put_own(EVENT_STOP, 0, file->written, file->lost + emit_refused(), 0, NULL);
	end_block();
	flush_out();
}

static void *collector_main(void *arg)
{
	(void)arg;
	os_mask(~(uint64_t)0, 0); /* handlers of the program must not run on this OS thread */
	begin_block(0, cpu_ticks());
	put_greens();
	end_block();
	while (!ld_acq(&file->stop) && !file->err) { /* ORD(tracefile.stop) */
		int64_t now = os_now();
		bool full = drain_all();

		put_pass(now);
		flush_out();
		if (now >= file->ended_at) {
			file->ended_at = now + ENDED_NS;
			emit_free_ended();
		}
		os_futex_wait(&file->stop, 0, now + (full ? FULL_NS : IDLE_NS));
	}
	put_end();
	int fd = file->fd;

	st_rlx(&file->fd, -1); /* the child of a fork must not close another fd of that number */
	os_close_file(fd);     /* the reader of a pipe has all */
	return NULL;
}

int tracefile_start(int fd, bool is_read_to_end)
{
	void *mem = os_reserve(sizeof(*file));
	int err;

	if (!mem)
		return -ENOMEM;
	__typeof__(file) f = mem;

	f->fd = fd; /* before a fork can see it */
	f->is_stream = !is_read_to_end && os_is_stream(fd);
	file = f;
	put_header();
	file->session = emit_begin(sched.asymmetric);
	err = os_thread_start(&file->thread, collector_main, NULL, COLLECTOR_STACK, NULL);
	if (err) {
		emit_end();
		emit_discard();
		os_release(file, sizeof(*file));
		file = NULL;
	}
	return err;
}

void tracefile_ask_stop(void)
{
	st_rel(&file->stop, 1); /* ORD(tracefile.stop) */
	os_futex_wake(&file->stop, 1);
}

int tracefile_stop(void)
{
	tracefile_ask_stop();
	pthread_join(file->thread, NULL);
	emit_discard();
	int err = file->err;

	os_release(file, sizeof(*file));
	file = NULL;
	return err;
}

void tracefile_forget(void)
{
	if (file && file->fd >= 0)
		close(file->fd); /* otherwise the reader of a pipe waits for the child, too; no
				  * unlock: the lock is the parent's */
	file = NULL;
}
