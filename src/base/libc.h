/* SPDX-License-Identifier: MIT */
/* What glibc has, and its headers or those of other C libraries of Linux do not declare. */
#ifndef GMP_LIBC_H
#define GMP_LIBC_H

#include <signal.h>
#include <sys/uio.h>

#ifndef sigev_notify_thread_id /* glibc has no name for it */
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Signals that glibc uses for pthread_cancel and for setuid, and keeps from programs. */
enum { SIG_CANCEL = 32, SIG_SETXID = 33 };

#ifndef RWF_NOWAIT /* musl before 1.2.5: libc_musl.c defines the functions */
#define RWF_NOWAIT 8
ssize_t preadv2(int fd, const struct iovec *v, int n, off_t at, int flags);
ssize_t pwritev2(int fd, const struct iovec *v, int n, off_t at, int flags);
#endif

/* The spawn action closefrom.  Callers include errno.h. */
#ifdef __GLIBC_PREREQ
#define LIBC_CLOSES_FROM __GLIBC_PREREQ(2, 34)
#else
#define LIBC_CLOSES_FROM 0
#endif
#if !LIBC_CLOSES_FROM
#define posix_spawn_file_actions_addclosefrom_np(actions, fd) ENOTSUP
#endif

#endif
