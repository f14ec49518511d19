/* SPDX-License-Identifier: MIT */
/*
 * How does the kernel say that a descriptor has become ready?  One table of functions per kernel
 * interface (epoll here, kqueue one more file); it knows descriptors and keys, no green threads.
 *
 * Every descriptor is registered once, for both directions, edge-triggered: the kernel reports
 * each change to ready once, and a report is never lost between two calls of wait.
 */
#ifndef GMP_POLLER_H
#define GMP_POLLER_H

#include "base/base.h"

enum poll_events {
	POLL_READ = 1,  /* readable, or at the end of the stream */
	POLL_WRITE = 2, /* writable */
	POLL_HUNG = 4,  /* the other end hung up, an error stands, or urgent data came (reads stop
	                   short before it): from now on a short read says nothing */
};

struct poll_event {
	uint64_t key;
	unsigned events;
};

struct poller {
	int (*open)(void); /* 0 or -errno */
	void (*close)(void);
	int (*add)(int fd, uint64_t key); /* 0; -EPERM: cannot be polled; -EEXIST; -ENOMEM ... */
	/* A registered descriptor gets another key, and is reported at once if it is ready: 0, -ENOENT. */
	int (*rekey)(int fd, uint64_t key);
	/* One report of poll(2)'s events, then none until it is armed again; add: it is registered by this
	 * call.  0, -ENOENT, -EEXIST, or as add.  If it is ready, it is reported at once. */
	int (*once)(int fd, uint64_t key, short events, bool add);
	int (*del)(int fd); /* 0, -ENOENT */
	/* Up to max events; waits `ns` at most (0: not at all, NEVER: no limit).  The number of
	 * events; also 0 after a wake, a signal, or the time.  One thread at a time waits. */
	int (*wait)(struct poll_event *events, int max, int64_t ns);
	/* The same without looking at descriptors, until the deadline (NEVER: none), for a thread that
	 * waits for nothing but a wake: sooner up than from wait.  May return early. */
	void (*rest)(int64_t deadline);
	/* Make the present or the next wait or rest return at once; from anywhere. */
	void (*wake)(void);
};

extern const struct poller gmp__poller;

#endif
