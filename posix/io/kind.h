/* SPDX-License-Identifier: MIT */
/* Hints about the file of an fd number, for reads and writes: see readwrite.c. */
#ifndef GMP_POSIX_KIND_H
#define GMP_POSIX_KIND_H

#include "base/atomic.h"

/*
 * The kind
 *   KIND_UNKNOWN        nothing is known: try as a socket
 *   KIND_SOCKET         a socket with messages, or of a family without persistent registrations
 *                       (IOWAIT-9): a short read says nothing
 *   KIND_STREAM_SOCKET  a socket with a stream of bytes
 *   KIND_PIPE           a pipe or FIFO: a short read has emptied it, unless its writer has O_DIRECT
 *   KIND_STREAM         another file for which RWF_NOWAIT may work: eventfds ...  (EOPNOTSUPP:
 *                       blocking code)
 *   KIND_FILE           RWF_NOWAIT must not be used: regular files, directories, terminals ...
 *
 * and
 *   HINT_SHORT_WAIT  at the last check of a read that waited, the fd was blocking and had no
 *                    timeout; the wait was short (IOWAIT-5)
 *   HINT_DRAINED     the last read returned less than it asked for; not of KIND_SOCKET and
 *                    KIND_STREAM, whose reads may leave data then
 *   HINT_WAITED      a call has found it not ready (IOWAIT-6)
 *   HINT_PERSISTENT  a KIND_STREAM_SOCKET or KIND_PIPE that has waited: its registration may be
 *                    persistent (IOWAIT-9)
 */
enum kind { KIND_UNKNOWN, KIND_SOCKET, KIND_STREAM_SOCKET, KIND_PIPE, KIND_STREAM, KIND_FILE };
enum {
	HINT_KIND = 7,
	HINT_SHORT_WAIT = 8,
	HINT_DRAINED = 16,
	HINT_WAITED = 32,
	HINT_PERSISTENT = 64,
};

/* KINDS: numbers with a hint; others are always KIND_UNKNOWN. */
enum { KINDS = 1 << 16 };

extern uint8_t gmp__posix_hints[KINDS];  /* (a) by fd */
extern uint8_t gmp__posix_closes[KINDS]; /* (a) by fd: how often the number was closed */

static inline unsigned hint_of(int fd)
{
	return likely((unsigned)fd < KINDS) ? ld_rlx(&gmp__posix_hints[fd]) : 0;
}

static inline enum kind kind_of(int fd)
{
	return (enum kind)(hint_of(fd) & HINT_KIND);
}

/* KIND_UNKNOWN: the number has, or gets, another file. */
static inline void kind_set(int fd, enum kind kind)
{
	unsigned keep = kind == KIND_UNKNOWN ? 0 : hint_of(fd) & HINT_WAITED;

	if ((unsigned)fd >= KINDS)
		return;
	st_rlx(&gmp__posix_hints[fd], (uint8_t)(kind | keep));
	if (kind == KIND_UNKNOWN)
		add_rlx(&gmp__posix_closes[fd], 1);
}

/* The number may have another file, which was opened or closed by a call that is not replaced. */
static inline void kind_forget(int fd)
{
	if ((unsigned)fd < KINDS)
		st_rlx(&gmp__posix_hints[fd], (uint8_t)0);
}

/* If two threads change bits at the same time, a change may be lost: they are hints. */
static inline void hint_set(int fd, unsigned bit, bool on)
{
	unsigned old = hint_of(fd), new = on ? old | bit : old & ~bit;

	if (old != new && (unsigned)fd < KINDS)
		st_rlx(&gmp__posix_hints[fd], (uint8_t) new);
}

/* Is a read likely to find nothing, and to wait? */
static inline bool hint_empty(unsigned hint)
{
	return (hint & (HINT_SHORT_WAIT | HINT_DRAINED)) == (HINT_SHORT_WAIT | HINT_DRAINED);
}

#endif
