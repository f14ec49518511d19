/* SPDX-License-Identifier: MIT */
/*
 * Model of the rings of trace events: the collector uses only records that are complete, not
 * overwritten, and of its session; it counts the others as lost; and the end of a session waits for
 * each record of it, although stores become visible late and in any order.
 *
 * Processes
 *   Emitter    EMITTERS of them, each with a ring of its own; each makes up to TRIES attempts to
 *              emit an event, and may stop before
 *   Collector  SESSIONS sessions after one another, each with PASSES passes over the rings, and a
 *              last pass after its end, which it may omit (a disk that is full)
 *
 * Abstractions: the list of rings is a set of bits, and the loop that pushes a ring is a single
 * read-modify-write.  A record has WORDS words, and each of them has the number of the record, from
 * 1 on.  The fields of a ring that are set before the push are one location that is not atomic.
 * With TEXT an event may have two records.
 *
 * Properties
 *   EMIT-2: a record that is used is whole, and that of its number
 *                                                   assertion in check_record
 *   EMIT-3: it is of this session                   assertion in check_record
 *   EMIT-2: a record is lost only if its slot was reserved again
 *                                                   assertion in check_record
 *   EMIT-3: after emit_end no record of the session is written, and all are visible
 *                                                   assertions in ring_put, emit_end
 *   used + lost = emitted, after the last pass      assertion in last_pass
 *   the fields of a ring are visible                assertion in pass
 *   emit_end returns                                every end state is valid
 *
 * Memory is that of c11.inc, with fences: a store after a release fence carries the view of the
 * thread at that fence, and an acquire fence takes over what earlier loads have found beside their
 * values.  A membarrier brings the views of all threads to the same state.  With FULL, a fence of
 * one thread merges its view with that of all such fences before, in both directions.
 *
 * Left out: a ring that is freed (emit_free_ended, emit_fini), RECORD_CPU, the wrap of 64-bit
 * numbers, a read of a part of the records (`most`), and a thread without a ring.
 *
 * Models:
 *   src/base/emit.c: ring_new ring_reserve ring_put gmp__emit gmp__emit_text
 *   src/base/emit.c: emit_rings ring_read emit_begin emit_end
 *   ORD: emit.session emit.record
 *
 * Runs: the searches of scripts/model
 *   holds      -DTRIES=5 -DPASSES=2
 *   holds      -DTRIES=5 -DSIZE=3 -DWORDS=1
 *   holds      -DTRIES=4 -DWORDS=1 -DTEXT
 *   holds      -DTRIES=4 -DWRITTEN_FIRST
 *   holds      -DTRIES=4 -DFULL
 *   holds      -DTRIES=1 -DEMITTERS=2 -DSIZE=1 -DWORDS=1
 *   assertion  -DTRIES=4 -DMUTANT_NO_LIGHT_FENCE
 *   assertion  -DTRIES=4 -DMUTANT_NO_HEAVY_FENCE
 *   assertion  -DTRIES=4 -DFULL -DMUTANT_NO_OWN_FENCE
 *   assertion  -DTRIES=4 -DFULL -DMUTANT_NO_END_FENCE
 *   assertion  -DTRIES=4 -DMUTANT_UNCHECKED
 *   assertion  -DTRIES=4 -DMUTANT_NO_WAIT
 *   deadlock   -DTRIES=4 -DMUTANT_NOT_SET_BACK
 *   assertion  -DTRIES=4 -DMUTANT_NO_RELEASE_FENCE
 *   assertion  -DTRIES=4 -DMUTANT_NO_ACQUIRE_FENCE
 *   assertion  -DTRIES=4 -DMUTANT_RESERVED_UNREAD
 *   assertion  -DTRIES=4 -DMUTANT_WRITTEN
 *   assertion  -DTRIES=4 -DMUTANT_WRITTEN_SEEN
 *   assertion  -DTRIES=4 -DMUTANT_END_SEEN
 *   assertion  -DTRIES=4 -DMUTANT_PUSHED
 *   assertion  -DTRIES=4 -DMUTANT_RINGS_SEEN
 *   assertion  -DTRIES=4 -DMUTANT_READ_KEPT
 */
#ifndef EMITTERS
#define EMITTERS 1
#endif
#ifndef SIZE
#define SIZE 2 /* records of a ring */
#endif
#ifndef WORDS
#define WORDS 2 /* of a record */
#endif
#ifndef TRIES
#define TRIES 4
#endif
#ifndef SESSIONS
#define SESSIONS 2
#endif
#ifndef PASSES
#define PASSES 1
#endif
#ifdef TEXT
#define RECORDS (2 * TRIES)
#else
#define RECORDS TRIES
#endif
#define COLLECTOR EMITTERS
#define THREADS (EMITTERS + 1)
#define MIN(a, b) ((a) < (b) -> (a) : (b))

/* --- the orders, as in the code; a mutant takes away one --- */

#ifdef MUTANT_WRITTEN /* ORD(emit.record): a record that is not complete is used */
#define ORDER_WRITTEN RLX
#else
#define ORDER_WRITTEN REL
#endif
#ifdef MUTANT_WRITTEN_SEEN /* ORD(emit.record): the same, at the other end */
#define ORDER_WRITTEN_SEEN RLX
#else
#define ORDER_WRITTEN_SEEN ACQ
#endif
#ifdef MUTANT_END_SEEN /* ORD(emit.record): memory is discarded before a record in it is visible */
#define ORDER_END_SEEN RLX
#else
#define ORDER_END_SEEN ACQ
#endif
#ifdef MUTANT_PUSHED /* ORD(emit.record): the ring is in the list before its fields are set */
#define ORDER_PUSHED RLX
#else
#define ORDER_PUSHED REL
#endif
#ifdef MUTANT_RINGS_SEEN /* ORD(emit.record): the same, at the other end */
#define ORDER_RINGS_SEEN RLX
#else
#define ORDER_RINGS_SEEN ACQ
#endif

/* --- memory --- */

#define RINGS 0
#define WRITTEN(e) (1 + (e))
#define WORD(e, slot, k) (1 + EMITTERS + ((e) * SIZE + (slot)) * WORDS + (k))
#define SYNCS (1 + EMITTERS + EMITTERS * SIZE * WORDS)
/* relaxed only */
#define RECORDING SYNCS
#define RESERVED(e) (SYNCS + 1 + (e))
/* not atomic */
#define FIELDS(e) (SYNCS + 1 + EMITTERS + (e))
#define LOCS (SYNCS + 1 + 2 * EMITTERS)
#ifndef DEPTH
#define DEPTH (2 * TRIES + 2)
#endif
#include "c11.inc"
#define NOW(l) VALUE(l, newest[l])

byte fenced[EMITTERS * LOCS]; /* the view of each emitter at its last release fence */
byte noted[LOCS];	      /* what the collector has found beside the words of records */
#ifdef FULL
byte fences[LOCS]; /* the view of all fences */
#endif

/* for the properties */
byte ended;		/* the last session that is over */
byte start[EMITTERS];	/* records before this session */
byte peak[EMITTERS];	/* the largest number that was ever reserved */

/* Fewer states: forget entries that no thread may read any more. */
byte lo, k1, k2;
#define READS(id, l) (id == COLLECTOR || l == RECORDING)

inline tidy()
{
	d_step {
		for (mem_k : 0 .. SYNCS + EMITTERS) {
			lo = newest[mem_k];
			for (mem_id : 0 .. THREADS - 1) {
				if
				:: KNOWS(mem_id, mem_k) < lo && READS(mem_id, mem_k) ->
					lo = KNOWS(mem_id, mem_k)
				:: else
				fi
			};
			if
			:: lo > 0 -> forget(mem_k)
			:: else
			fi
		};
		mem_k = 0;
		mem_id = 0;
		lo = 0
	}
}

#define LESS(x) x = (x > lo -> x - lo : 0)

/* The first lo entries of l; under d_step. */
inline forget(l)
{
	for (mem_id : 0 .. THREADS - 1) {
		LESS(KNOWS(mem_id, l))
	};
	for (k1 : 0 .. EMITTERS - 1) {
		LESS(fenced[k1 * LOCS + l])
	};
	LESS(noted[l]);
#ifdef FULL
	LESS(fences[l]);
#endif
	for (k1 : 0 .. newest[l]) {
		VALUE(l, k1) = (k1 + lo <= newest[l] -> VALUE(l, k1 + lo) : 0);
		if
		:: l < SYNCS ->
			for (k2 : 0 .. LOCS - 1) {
				BESIDE(l, k1, k2) =
					(k1 + lo <= newest[l] -> BESIDE(l, k1 + lo, k2) : 0)
			}
		:: else
		fi
	};
	newest[l] = newest[l] - lo;
	for (k1 : 0 .. SYNCS - 1) {
		for (k2 : 0 .. newest[k1]) {
			LESS(BESIDE(k1, k2, l))
		}
	};
	k1 = 0;
	k2 = 0
}

/* --- fences --- */

inline fence_rel()
{
	d_step {
		for (mem_k : 0 .. LOCS - 1) {
			fenced[me * LOCS + mem_k] = KNOWS(me, mem_k)
		};
		mem_k = 0
	}
}

/* A relaxed store after fence_rel. */
inline store_fenced(l, v)
{
	d_step {
		assert(newest[l] + 1 < DEPTH);
		newest[l]++;
		VALUE(l, newest[l]) = v;
		KNOWS(me, l) = newest[l];
		for (mem_k : 0 .. LOCS - 1) {
			BESIDE(l, newest[l], mem_k) = fenced[me * LOCS + mem_k]
		};
		mem_k = 0
	}
}

/* A relaxed load before fence_acq. */
inline load_noted(l, into)
{
	atomic {
		ts = KNOWS(me, l);
		do
		:: ts < newest[l] -> ts++
		:: break
		od;
		skip;
		d_step {
			KNOWS(me, l) = ts;
			for (mem_k : 0 .. LOCS - 1) {
				noted[mem_k] = (BESIDE(l, ts, mem_k) > noted[mem_k] ->
					BESIDE(l, ts, mem_k) : noted[mem_k])
			};
			mem_k = 0;
			into = VALUE(l, ts);
			ts = 0
		}
	}
}

inline fence_acq()
{
	d_step {
		for (mem_k : 0 .. LOCS - 1) {
#ifndef MUTANT_NO_ACQUIRE_FENCE /* ORD(emit.record): `reserved` is older than the records */
			KNOWS(me, mem_k) = (noted[mem_k] > KNOWS(me, mem_k) ->
				noted[mem_k] : KNOWS(me, mem_k));
#endif
			noted[mem_k] = 0
		};
		mem_k = 0
	}
}

#ifdef FULL
inline fence_seq()
{
	d_step {
		for (mem_k : 0 .. LOCS - 1) {
			if
			:: fences[mem_k] > KNOWS(me, mem_k) -> KNOWS(me, mem_k) = fences[mem_k]
			:: else -> fences[mem_k] = KNOWS(me, mem_k)
			fi
		};
		mem_k = 0
	}
}
#endif

/* --- emitting --- */

/* The fields of the ring, and the push. */
inline ring_new()
{
	touch(FIELDS(me));
	d_step {
		assert(newest[RINGS] + 1 < DEPTH);
		newest[RINGS]++;
		inherit(RINGS, newest[RINGS] - 1, newest[RINGS]);
		VALUE(RINGS, newest[RINGS]) = VALUE(RINGS, newest[RINGS] - 1) | (1 << me);
		KNOWS(me, RINGS) = newest[RINGS];
		if
		:: ORDER_PUSHED & REL -> leave_beside(RINGS, newest[RINGS])
		:: else
		fi
	}
}

/* Steps 2 to 5; in go, whether the session is on. */
inline ring_reserve()
{
#ifdef MUTANT_NO_LIGHT_FENCE /* ORD(emit.session): neither sees what the other has stored */
	load(RECORDING, RLX, now);
	reserve();
#else
	reserve();
#ifdef FULL
#ifndef MUTANT_NO_OWN_FENCE /* ORD(emit.session): the same, without membarrier */
	fence_seq();
#endif
#endif
	load(RECORDING, RLX, now);
#endif
	atomic {
#ifdef MUTANT_UNCHECKED /* the session has ended since it was read */
		go = true;
#else
		go = now == what;
#endif
		now = 0
	};
	if
	:: go ->
#ifndef MUTANT_NO_RELEASE_FENCE /* ORD(emit.record): a record changes before it is reserved */
		fence_rel()
#endif
	:: else ->
#ifndef MUTANT_NOT_SET_BACK /* the end of a session waits for a record that is not written */
		store(RESERVED(me), RLX, at)
#endif
	fi
}

inline reserve()
{
	d_step {
		store(RESERVED(me), RLX, at + n);
		peak[me] = (at + n > peak[me] -> at + n : peak[me])
	}
}

/* Record number at + i + 1. */
inline ring_put()
{
	for (k : 0 .. WORDS - 1) {
		atomic {
			assert(what > ended);
			store_fenced(WORD(me, (at + i) % SIZE, k), at + i + 1);
			tidy()
		}
	};
	k = 0
}

proctype Emitter(byte me)
{
	byte ts, what, now, at, n, i, k, tries = TRIES;
	bool go, has_ring;

	do
	:: tries > 0 ->
		load(RECORDING, RLX, what);
		if
		:: what != 0 ->
			tries--;
			if
			:: !has_ring -> ring_new(); has_ring = true
			:: else
			fi;
#ifdef TEXT
			if
			:: n = 1
			:: n = 2
			fi;
#else
			n = 1;
#endif
			ring_reserve();
			if
			:: go ->
				do
				:: i < n -> ring_put(); i++
				:: else -> break
				od;
				atomic {
					at = at + n;
					i = 0;
					store(WRITTEN(me), ORDER_WRITTEN, at);
					tidy()
				}
			:: else
			fi;
			atomic { go = false; what = 0; n = 0 }
		:: else
		fi
	:: break
	od
}

/* --- the collector --- */

/* Record number v, of which the words w1 and w2 were read. */
inline check_record(v, w1, w2, is_used)
{
	if
	:: is_used ->
		assert(w1 == v && w2 == v);
		assert(v > start[e])
	:: else ->
		/* an attempt that is given up may count as an overwrite */
		assert(v + SIZE <= peak[e])
	fi
}

inline emit_rings()
{
	load(RINGS, ORDER_RINGS_SEEN, rings)
}

#define HAS(e) (rings >> (e) & 1)

/* ring_read of all records. */
inline ring_read()
{
	load(WRITTEN(e), ORDER_WRITTEN_SEEN, end);
	atomic {
		from = (end - read[e] > SIZE -> end - SIZE : read[e]);
		lost = lost + from - read[e];
		read[e] = end;
		n = end - from;
		end = 0
	};
	do
	:: i < n ->
		for (k : 0 .. WORDS - 1) {
			load_noted(WORD(e, (from + i) % SIZE, k), out[i * WORDS + k])
		};
		atomic { k = 0; i++ }
	:: else -> break
	od;
	fence_acq();
	load(RESERVED(e), RLX, r);
	atomic {
		bad = (r > SIZE + from -> MIN(r - SIZE - from, n) : 0);
#ifdef MUTANT_RESERVED_UNREAD /* a record that changed while it was read is used */
		bad = 0;
#endif
		for (k : 0 .. n - 1) {
			check_record(from + k + 1, out[k * WORDS], out[k * WORDS + WORDS - 1],
				     k >= bad)
		};
		lost = lost + bad;
		used = used + n - bad;
		for (k : 0 .. SIZE * WORDS - 1) {
			out[k] = 0
		};
		k = 0;
		i = 0;
		n = 0;
		r = 0;
		bad = 0;
		from = 0;
		tidy()
	}
}

/* One pass over all rings. */
inline pass()
{
	emit_rings();
	e = 0;
	do
	:: e < EMITTERS ->
		if
		:: HAS(e) ->
			assert(KNOWN(FIELDS(e)));
			ring_read()
		:: else
		fi;
		e++
	:: else -> break
	od;
	atomic { e = 0; rings = 0 }
}

inline emit_begin()
{
	emit_rings();
	e = 0;
	do
	:: e < EMITTERS ->
		start[e] = NOW(WRITTEN(e));
		if
		:: HAS(e) ->
			load(WRITTEN(e), RLX, r);
#ifdef MUTANT_READ_KEPT /* records of the former session are used */
			atomic { r = 0 }
#else
			atomic { read[e] = r; r = 0 }
#endif
		:: else
		fi;
		e++
	:: else -> break
	od;
	atomic { e = 0; rings = 0; session++; store(RECORDING, RLX, session); tidy() }
}

inline emit_end()
{
	store(RECORDING, RLX, 0);
#if defined(FULL)
#ifndef MUTANT_NO_END_FENCE /* ORD(emit.session): the same, without membarrier */
	fence_seq();
#endif
#elif !defined(MUTANT_NO_HEAVY_FENCE) /* ORD(emit.session): neither sees what the other stored */
	meet_all();
#endif
	emit_rings();
	e = 0;
	do
	:: e < EMITTERS ->
		if
		:: HAS(e) -> wait_for_ring()
		:: else
		fi;
		e++
	:: else -> break
	od;
	atomic {
		for (e : 0 .. EMITTERS - 1) {
			for (k : 0 .. SIZE * WORDS - 1) {
				assert(KNOWN(WORD(e, 0, k)))
			}
		};
		k = 0;
		e = 0;
		rings = 0;
		ended = session;
		tidy()
	}
}

/* Until reserved == written, which are read in any order. */
inline wait_for_ring()
{
#ifdef MUTANT_NO_WAIT /* a record is written after the end of the session */
	skip
#else
	do
	::
#ifdef WRITTEN_FIRST
		load(WRITTEN(e), ORDER_END_SEEN, end);
		load(RESERVED(e), RLX, r);
#else
		load(RESERVED(e), RLX, r);
		load(WRITTEN(e), ORDER_END_SEEN, end);
#endif
		if
		:: r == end -> break
		:: else ->
			/* os_yield: another store becomes visible */
			!KNOWN(RESERVED(e)) || !KNOWN(WRITTEN(e))
		fi
	od;
	atomic { r = 0; end = 0 }
#endif
}

inline last_pass()
{
	pass();
	atomic {
		for (e : 0 .. EMITTERS - 1) {
			n = n + NOW(WRITTEN(e)) - start[e]
		};
		assert(used + lost == n);
		e = 0;
		n = 0
	}
}

proctype Collector(byte me)
{
	byte ts, session, rings, e, end, from, n, i, k, r, bad, lost, used, passes;
	byte read[EMITTERS];
	byte out[SIZE * WORDS];

	do
	:: session < SESSIONS ->
		emit_begin();
		do
		:: passes < PASSES -> pass(); passes++
		:: break
		od;
		emit_end();
		if
		:: last_pass()
		:: skip
		fi;
		atomic { passes = 0; used = 0; lost = 0 }
	:: else -> break
	od
}

init
{
	byte k;

	atomic {
		for (k : 0 .. EMITTERS - 1) {
			run Emitter(k)
		};
		run Collector(COLLECTOR);
		k = 0
	}
}
