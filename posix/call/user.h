/* SPDX-License-Identifier: MIT */
/* Memory that a caller of a replaced function names: see user.c. */
#ifndef GMP_POSIX_USER_H
#define GMP_POSIX_USER_H

#include <stddef.h>

#include "base/base.h"

/* True if the kernel can read n bytes at p.  Leaves errno, and is async-signal-safe, as the others
 * are. */
bool user_reads(const void *p, size_t n);

/* Copy n bytes from the caller's memory, or to it.  False: a bad address, and nothing is copied. */
bool user_read(void *to, const void *from, size_t n);
bool user_write(void *to, const void *from, size_t n);

#endif
