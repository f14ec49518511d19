/* SPDX-License-Identifier: MIT */
/* Accept loop, orderly end and write timeouts of a server. */
#ifndef EXAMPLES_SERVER_H
#define EXAMPLES_SERVER_H

#include <gmp.h>

#include <stdatomic.h>
#include <stdbool.h>

#define SERVER_LISTENERS 2

struct server;

/* A file descriptor that is shut down when the server ends, as each connection's is. */
struct server_fd {
	int fd;
	struct server_fd *next;
	struct server_fd **link; /* what points to this one */
};

struct listener {
	struct server *server;
	int fd;
};

/* All zero except the first four, which the caller sets. */
struct server {
	void (*serve)(int fd, void *arg); /* runs on the connection's own green thread */
	void *arg;
	const char *name; /* begins every message */
	int64_t grace;    /* ns that connections get at the end to finish what they do; may be 0 */

	struct listener listeners[SERVER_LISTENERS];
	int listening;
	gmp_wg acceptors;
	gmp_wg connections;
	_Atomic int64_t last_complaint;
	atomic_bool ending;
	gmp_mutex lock; /* guards first and the list that it begins */
	struct server_fd *first;
};

/* Block SIGINT and SIGTERM, and return a signalfd of them, or a negative errno value.
 * Call it before gmp_run, so that every OS thread of the runtime has them blocked too. */
int server_block_signals(void);

/* Wait, on a green thread, until one of the two signals has come. */
void server_wait_for_signal(int signals);

/* Listen on an address, as gmp_listen takes it, and serve each connection. Returns the
 * listening descriptor, or a negative errno value. */
int server_listen(struct server *s, const char *net, const char *addr);

/* For a serve that opens a descriptor of its own and may wait on it: shut it too when the server
 * ends. Returns false, without effect, if the server is ending already. Remove it before closing
 * it. */
bool server_add_fd(struct server *s, struct server_fd *d, int fd);
void server_remove_fd(struct server *s, struct server_fd *d);

/* Print what has failed, and why; a line a second at most, whatever happens in between. */
void server_complain(struct server *s, const char *what, int err);

/* Accept no more connections, shut down the open ones (with `grace`, their reading half first), and
 * wait for their green threads, for five seconds at most. 0, or -ETIMEDOUT when some were still
 * busy. */
int server_end(struct server *s);

/* Shut the sending half, then discard what the peer sends until it closes: 1 MiB or 2 s at most. If
 * a socket is closed while it holds unread bytes, the kernel resets the connection, and the peer
 * may lose the last answer. */
void server_finish(int fd);

/*
 * Time limit of a sender whose peer reads slowly.
 *
 * A socket becomes writable again only when about a third of its send buffer is free, which may be
 * more than a megabyte. So progress is measured in bytes that the peer has acknowledged. If none
 * was acknowledged for `patience`, server_extend gives up, at most `patience` / 2 later.
 *
 * The peer's system acknowledges in steps: while its receive buffer is full, Linux waits until a
 * sixteenth of that buffer or one segment is free, whichever is more. A client that reads this much
 * in each `patience` is not cut off.
 *
 *   server_arm(&w);
 *   do
 *           n = gmp_write(w.fd, bytes, size);
 *   while (n == -ETIMEDOUT && server_extend(&w));
 *
 * server_write does this. All zero except `fd` and `patience`.
 */
struct server_writer {
	int fd;
	int64_t patience;   /* ns; 0: no limit */
	int64_t due;        /* when server_arm has to move the deadline */
	int checks;         /* since an acknowledgement; 0: no check since the last write */
	int unacknowledged; /* bytes, at the last check */
};

/* Give the next write a deadline. */
void server_arm(struct server_writer *w);

/* After a write has returned -ETIMEDOUT: set a later deadline and return true, unless the peer has
 * acknowledged no byte for `patience`. */
bool server_extend(struct server_writer *w);

/* Write at least one byte and at most n. Returns the number, or a negative errno value. */
ssize_t server_write(struct server_writer *w, const void *bytes, size_t n);

/* Bytes that were written and that the peer has not acknowledged; 0 if it is not known. */
int server_unacknowledged(int fd);

/* Whether the peer of a TCP connection has reset it. Linux reports a reset by an error to one call
 * only; later reads return the end of the stream. But the socket then has no peer any more. */
bool server_was_reset(int fd);

/* Make gmp_close reset the connection and discard the bytes that were not sent. */
void server_reset_on_close(int fd);

/* The number in a text of digits only, or -1 when it is none or is not within low..high. */
long server_parse_number(const char *text, long low, long high);

#endif
