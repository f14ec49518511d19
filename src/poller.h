/* SPDX-License-Identifier: MIT */
/*
 * Interface to the kernel's readiness events: one table of functions per kernel interface
 * (netpoll_epoll.c, netpoll_kqueue.c).  It knows fds and keys, no Gs.
 *
 * An fd is registered once, for both directions, edge-triggered: the kernel reports each change to
 * ready once, and no report is lost between two calls of wait.
 */
#ifndef GMP_POLLER_H
#define GMP_POLLER_H

#include "base/base.h"

/* POLL_HUNG: the peer hung up, an error is pending, or urgent data came, before which reads stop.
 * From then on a short read does not mean that no data is left. */
enum poll_events {
	POLL_READ = 1 << 0,  /* readable, or at the end of the stream */
	POLL_WRITE = 1 << 1, /* writable */
	POLL_HUNG = 1 << 2,
};

struct poll_event {
	uint64_t key;
	unsigned events;
};

struct poller {
	int (*open)(void); /* 0 or -errno */
	void (*close)(void);
	int (*add)(int fd, uint64_t key); /* 0; -EPERM: cannot be polled; -EEXIST; -ENOMEM ... */
	/* Give a registered fd another key; if it is ready, it is reported at once.  0, -ENOENT. */
	int (*rekey)(int fd, uint64_t key);
	/* Arm for one report of poll(2)'s events; add: register it by this call.  If it is ready,
	 * it is reported at once.  0, -ENOENT, -EEXIST, or as add. */
	int (*once)(int fd, uint64_t key, short events, bool add);
	int (*del)(int fd); /* 0, -ENOENT */
	/* Wait up to ns (0: not at all, NEVER: indefinitely) for up to max events.  Returns their
	 * number; 0 also after a wake, a signal or the timeout.  One thread at a time waits with
	 * ns > 0. */
	int (*wait)(struct poll_event *events, int max, int64_t ns);
	/* Wait only for a wake, until the deadline (NEVER: indefinitely): wakes sooner than wait.
	 * May return early. */
	void (*rest)(int64_t deadline);
	/* Make the present or the next wait or rest return at once.  Any thread. */
	void (*wake)(void);
	/* End the process with a message unless the poller's own fds are the files that open made.
	 * Called if a registration of a poll record is missing.  A wait may return early. */
	void (*verify)(void);
	/* Urgent data is reported as POLL_HUNG.  If it is not, a short read of TCP never means that
	 * no data is left: the read may have stopped before the mark. */
	bool reports_urgent;
};

extern const struct poller gmp__poller;

#endif
