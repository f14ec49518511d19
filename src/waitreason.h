/* SPDX-License-Identifier: MIT */
/* Wait reasons: the reasons for which a G waits, and the columns of waitreason.def. */
#ifndef GMP_WAITREASON_H
#define GMP_WAITREASON_H

#include "base/base.h"

enum waitreason {
#define WAITREASON(name, text, key, end, handler) name,
#include "waitreason.def"
#undef WAITREASON
	WAIT_REASONS /* their number */
};

/* What the key of a waiting sudog is. */
enum waitkey {
	WAITKEY_OBJECT,     /* NULL or the address of the object */
	WAITKEY_LOCK,       /* of a gmp_mutex or gmp_rwmutex: wait_key_mutex */
	WAITKEY_ONCE,       /* a gmp_once */
	WAITKEY_JOIN,       /* the field `join` of the awaited G */
	WAITKEY_FD,         /* a struct polldesc */
	WAITKEY_CASES,      /* NULL; select_ops finds the channels */
	WAITKEY_OFFSET,     /* the address of the object plus up to 7 (posix/sync/parked.h) */
	WAITKEY_COMPLEMENT, /* the complement of the address of the object */
};

/* What can end a wait: bits. */
enum waitend {
	WAITEND_OTHER = 0,      /* nothing, a timer, or a G that is not recorded */
	WAITEND_KNOWN = 1 << 0, /* one G, which snapshot_awaited finds */
	WAITEND_ANY = 1 << 1,   /* any G */
	WAITEND_IO = 1 << 2,    /* a file descriptor or an operation on it */
	WAITEND_KNOWN_OR_ANY = WAITEND_KNOWN | WAITEND_ANY,
};

enum { WAITHANDLER_KEEPS, WAITHANDLER_CUTS };

struct wait_kind {
	const char *text;
	uint8_t key; /* enum waitkey */
	uint8_t end; /* enum waitend */
	bool cut_by_handlers;
};

extern const struct wait_kind wait_kinds[WAIT_REASONS]; /* g.c */

/* Or-ed to the reason of a wait: cancellation does not end it. */
enum { UNCANCELLABLE = 0x80 };

#endif
