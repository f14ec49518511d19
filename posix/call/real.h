/* SPDX-License-Identifier: MIT */
/*
 * libc's own functions, for the replacements in libgmprt_posix.
 *
 * A replacement NAME calls LIBC(NAME).  A call of plain NAME in posix would enter the
 * replacement itself.
 */
#ifndef GMP_POSIX_REAL_H
#define GMP_POSIX_REAL_H

#include <fcntl.h>
#include <linux/capability.h>
#include <malloc.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"

/* What programs compiled with _FORTIFY_SOURCE call; room: of the buffer, in bytes. */
ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t at, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags, struct sockaddr *from,
		       socklen_t *len);
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask,
		size_t room);

/* What pthread_atfork calls. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);

/* Declared by libcap alone, with structs of the kernel. */
int capset(struct __user_cap_header_struct *header, struct __user_cap_data_struct *const data);

/* clone by another name. */
int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
	__attribute__((nothrow, leaf));

/* What a program's first code calls. */
int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
		      void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

#define CALL(name) extern __typeof__(name) *gmp__real_##name __attribute__((visibility("hidden")));
#include "posix/call/calls.def"

/* Look all of them up.  A constructor does so before code of this library runs, except for
 * replacements that constructors of other libraries call, which call this one. */
void gmp__real_resolve(void);

#define LIBC(name)                                                                                 \
	(likely(gmp__real_##name != NULL) ? gmp__real_##name                                       \
					  : (gmp__real_resolve(), gmp__real_##name))

/* A replacement is exported under libc's name. */
#define HOOK __attribute__((visibility("default")))

/* The replacement `of` has a second name: libc has the same function by both. */
#define HOOK_ALIAS(name, of)                                                                       \
	extern __typeof__(name) name __attribute__((alias(#of), visibility("default")))

#endif
