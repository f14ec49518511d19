/* SPDX-License-Identifier: MIT */
/*
 * Profiles in the format of pprof: encodes stack counts as the message of pprof_message.proto.
 *
 * libprotobuf-c encodes it; it is loaded at run time, by the first profile. In a build without the
 * compiler of protobuf-c (pprof_none.c), on a machine without the library, and in a program linked
 * statically there are no profiles.
 */
#ifndef GMP_PPROF_H
#define GMP_PPROF_H

#include "observe/profile/trace_counts.h"

struct pprof_type {
	const char *type, *unit; /* "cpu", "nanoseconds" */
};

/* What the values and the labels of stack counts mean. */
struct pprof_kind {
	struct pprof_type value[TRACE_COUNTS_VALUES]; /* type NULL: the counts have no such value */
	struct pprof_type period_type;                /* type NULL: none */
	const char *label[TRACE_COUNTS_LABELS];       /* keys of trace_count.label */
};

struct pprof_profile {
	const struct pprof_kind *kind;
	struct trace_counts counts;
	int64_t began;       /* ns since 1970 */
	int64_t duration;    /* ns */
	int64_t period;      /* in the unit of period_type */
	const char *comment; /* NULL: none */
};

/* An encoded profile, on the heap. */
struct pprof_out {
	unsigned char *data;
	size_t n;
};

/* Returns 0 if profiles can be encoded, otherwise -ENOTSUP. The first call loads the library. */
int pprof_available(void);
/* Encode p. Returns 0, -ENOMEM or -ENOTSUP. Success: free out->data. Allocates, and reads files:
 * for a thread with a stack of 256 KiB. */
int pprof_encode(const struct pprof_profile *p, struct pprof_out *out);

#endif
