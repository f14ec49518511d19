/* SPDX-License-Identifier: MIT */
/* Server loop: serves each connection in a green thread, limits the time of writes, and shuts down
 * gracefully. */
#ifndef EXAMPLES_SERVER_H
#define EXAMPLES_SERVER_H

#include <gmp.h>

#include <stdatomic.h>
#include <stdbool.h>

#define SERVER_LISTENERS 2

struct server;

/* An fd that is shut down when the server ends, like that of each connection. */
struct server_fd {
	int fd;
	struct server_fd *next;
	struct server_fd **link; /* the pointer to this entry */
};

struct listener {
	struct server *server;
	int fd;
};

/* All zero except the first five, which the caller sets. */
struct server {
	void (*serve)(int fd, void *arg); /* runs on the connection's own green thread */
	void *arg;
	const char *name; /* prefix of every message */
	int64_t grace;    /* ns that connections have to finish at shutdown; may be 0 */
	bool blocking; /* connections are blocking fds that gmp does not know: for libgmprt_posix */

	struct listener listeners[SERVER_LISTENERS];
	int listening;
	gmp_wg acceptors;
	gmp_wg connections;
	_Atomic int64_t last_complaint;
	atomic_bool ending;
	gmp_mutex lock; /* guards `first` and its list */
	struct server_fd *first;
};

/* Block SIGINT and SIGTERM, and return a signalfd of them, or a negative errno value.
 * Call it before gmp_run, so that every OS thread of the runtime has them blocked too. */
int server_block_signals(void);

/* Wait until one of the two signals has arrived. The caller is a green thread. */
void server_wait_for_signal(int signals);

/* Listen on an address, as gmp_listen takes it, and serve each connection. Returns the listening
 * fd, or a negative errno value. */
int server_listen(struct server *s, const char *net, const char *addr);

/* Shut down a further fd when the server ends; for a `serve` that opens an fd and waits on it.
 * Returns false, without effect, if the server is already ending. Remove the fd before closing
 * it. */
bool server_add_fd(struct server *s, struct server_fd *d, int fd);
void server_remove_fd(struct server *s, struct server_fd *d);

/* Print what has failed, and why. Prints at most one line a second; further calls are ignored. */
void server_complain(struct server *s, const char *what, int err);

/* Accept no more connections, shut down the open ones (with `grace`, their reading half first), and
 * wait for their green threads, for five seconds at most. Returns 0, or -ETIMEDOUT if some are
 * still busy. */
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

/* The check of server_extend alone, for a sender that sets deadlines otherwise: call it each
 * `patience` / 4 in which nothing could be written. Set `checks` to 0 before the write. */
bool server_progress(struct server_writer *w);

/* Write at least one byte and at most n. Returns the number, or a negative errno value. */
ssize_t server_write(struct server_writer *w, const void *bytes, size_t n);

/* Returns how many written bytes the peer has not acknowledged; 0 if that is not known. */
int server_unacknowledged(int fd);

/* Returns whether the peer has reset a TCP connection. Linux reports a reset by an error to one
 * call only; later reads return the end of the stream. But the socket then has no peer any more. */
bool server_was_reset(int fd);

/* Make gmp_close reset the connection and discard the bytes that were not sent. */
void server_reset_on_close(int fd);

/* Returns the number in a text of digits, or -1 if the text is no number or not in low..high. */
long server_parse_number(const char *text, long low, long high);

#endif
