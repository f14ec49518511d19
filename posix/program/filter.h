/* SPDX-License-Identifier: MIT */
/* What a seccomp filter kills: see filter.c. */
#ifndef GMP_POSIX_FILTER_H
#define GMP_POSIX_FILTER_H

enum filter_kill { FILTER_KILLS_NOTHING, FILTER_KILLS_THREAD, FILTER_KILLS_PROCESS };

/* What the filter at args, a struct sock_fprog, kills.  Nothing if it cannot be read.
 * Async-signal-safe. */
enum filter_kill filter_kills(const void *args);

#endif
