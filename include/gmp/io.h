/* SPDX-License-Identifier: MIT */
/*
 * Input and output: file descriptors, sockets, files, host names.
 *
 * File descriptors are plain ints. The call that opens or adopts one makes it non-blocking and
 * registers it with the poller; a green thread that waits for it is parked. A descriptor that
 * cannot be polled (a regular file) goes the way of blocking code. Reused numbers, shared
 * O_NONBLOCK flags, files and io_uring, and gmp's own descriptors: docs/api/descriptors.md.
 *
 * Errors that every call with a descriptor can return, beside those of its own list:
 *   -EBADF      gmp does not know the descriptor (gmp_poll: POLLNVAL)
 *   -ESRCH      no runtime, or it stops during the call
 *   -EFAULT     a buffer reaches into the guard of the caller's stack
 * and a call that waits:
 *   -ETIMEDOUT  a deadline of gmp_fd_set_deadline has passed
 *   -ECANCELED  the descriptor was closed or released, or the calling green thread was cancelled:
 *               gmp_cancelled() tells the two apart
 * Other errors are those of the system call of the same name. gmp reads an array of buffers or the
 * header of a message itself: if the caller cannot read it, the process ends by SIGSEGV, where the
 * system call returns EFAULT. EINTR is retried. Several threads may wait for one descriptor and
 * direction; they are served in FIFO order.
 */
#ifndef GMPRT_IO_H
#define GMPRT_IO_H

#include "base.h"
#include "process.h" /* also for code that includes io.h alone */
#include "signal.h"  /* likewise */
#include "time.h"    /* GMP_FOREVER, gmp_deadline */

#include <limits.h> /* IOV_MAX */
#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------- Listen, dial, accept */

/*
 * Networks and addresses of gmp_listen and gmp_dial
 *
 *   net   "tcp" "tcp4" "tcp6", "udp" "udp4" "udp6" (gmp_listen binds to the address, gmp_dial
 *         connects to it), "unix"
 *   addr  "host:port", ":port" (all addresses), "[::1]:0", "[fe80::1%eth0]:0" (an interface or its
 *         number), or a path ("@name" is Linux's abstract namespace)
 *
 * A host that is not numeric is looked up (gmp_getaddrinfo), and its addresses are tried in turn.
 * "localhost" is not looked up: it is 127.0.0.1 ("tcp6", "udp6": [::1]), and a dial by "tcp" that
 * fails there tries [::1] next. TCP sockets have TCP_NODELAY set, as in Go.
 *
 * Example:
 *   static void serve(void *arg)
 *   {
 *           int c = (int)(intptr_t)arg;
 *           char buf[512];
 *           ssize_t n;
 *
 *           while ((n = gmp_read(c, buf, sizeof(buf))) > 0)
 *                   gmp_write_all(c, buf, (size_t)n);
 *           gmp_close(c);
 *   }
 *
 *   static void server(void *arg)
 *   {
 *           for (int c, l = *(int *)arg; (c = gmp_accept(l)) >= 0;)
 *                   gmp_go(serve, (void *)(intptr_t)c);
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           int l = gmp_listen("tcp", "127.0.0.1:0");
 *           char addr[64], echo[5];
 *           gmp_g *g;
 *
 *           (void)arg;
 *           assert(gmp_local_addr(l, addr, sizeof(addr)) > 0);
 *           gmp_spawn(&g, server, &l, NULL);
 *
 *           int c = gmp_dial("tcp", addr);
 *
 *           assert(gmp_write_all(c, "hello", 5) == 5);
 *           assert(gmp_read_full(c, echo, 5) == 5 && memcmp(echo, "hello", 5) == 0);
 *           gmp_close(c);
 *           gmp_shutdown(l, SHUT_RDWR);            // ends gmp_accept with -EINVAL
 *           gmp_join(g);
 *           gmp_close(l);                          // no thread uses the number any more
 *   }
 */

/*
 * gmp_listen - gmp_listen_with without options
 *
 * net, addr  see "Networks and addresses"
 *
 * Returns and errors: as gmp_listen_with.
 */
GMP_API int gmp_listen(const char *net, const char *addr);

/* Options of gmp_listen_with. */
typedef struct gmp_listen_opts {
	size_t size;    /* set by GMP_LISTEN_OPTS_INIT */
	int backlog;    /* connections that wait to be accepted; 0: 4096; the system has a limit,
	                too */
	int reuse_port; /* 1: several sockets may listen at the address, and the kernel deals
	                   connections out */
} gmp_listen_opts;
#define GMP_LISTEN_OPTS_INIT GMP_SIZED_INIT_(gmp_listen_opts)

/*
 * gmp_listen_with - open a socket that listens, or that receives datagrams, at an address
 *
 * net, addr  see "Networks and addresses"
 * opts       options; NULL: none
 *
 * The path of a unix socket stays in the file system after gmp_close, and after the end of the
 * process; the next gmp_listen at it is then -EADDRINUSE. Unlink the path after gmp_close and, if a
 * former process may have left it, before this call (docs/api/servers.md). Names that begin with
 * "@" leave nothing.
 *
 * Returns the descriptor.
 * Errors, nothing is open, and no socket is left in the file system:
 *   -EINVAL        net or addr cannot be understood; opts->size is 0; opts->backlog is negative
 *   -E2BIG         opts sets a field that this version does not know
 *   -ENOENT        the host has no address
 *   -EAGAIN        no name server answered
 *   -ENAMETOOLONG  the path is too long
 *   -ECANCELED     the calling green thread was cancelled during the look-up
 *   -ESRCH         no runtime
 *   -EADDRINUSE, -EMFILE, -ENOSPC (the poller has no room) ...  the system's
 */
GMP_API int gmp_listen_with(const char *net, const char *addr, const gmp_listen_opts *opts);

/*
 * gmp_dial - connect to an address
 *
 * net, addr  see "Networks and addresses"
 *
 * Returns the descriptor of the connection.
 * Errors, nothing is open:
 *   -EINVAL        net or addr cannot be understood
 *   -ENOENT        the host has no address
 *   -EAGAIN        no name server answered
 *   -ENAMETOOLONG  the path is too long
 *   -ECANCELED     the calling green thread was cancelled
 *   -ESRCH         no runtime
 *   -ECONNREFUSED, -EMFILE, -ENOSPC (the poller has no room) ...  the system's
 *
 * If a host has several addresses, the error is that of the last; for "localhost" that of
 * 127.0.0.1.
 */
GMP_API int gmp_dial(const char *net, const char *addr);

/*
 * gmp_dial_until - gmp_dial, or give up at a deadline
 *
 * net, addr  as gmp_dial
 * deadline   nanoseconds on the clock of gmp_now(), of the look-up and of all attempts together. A
 *            deadline in the past makes one attempt.
 *
 * Returns and errors: as gmp_dial, and
 *   -ETIMEDOUT  the deadline passed
 */
GMP_API int gmp_dial_until(const char *net, const char *addr, int64_t deadline);

/*
 * gmp_accept - wait for a connection
 *
 * fd  a listening socket. A deadline for GMP_READ applies.
 *
 * To end a loop of this call from another thread: gmp_shutdown, then gmp_close after the loop has
 * ended. See gmp_close.
 *
 * Returns the descriptor of the connection.
 * Errors, no connection is lost:
 *   -EINVAL  the socket has been shut down (gmp_shutdown), or does not listen
 *   -EMFILE, -ENFILE, -ENOBUFS, -ENOMEM, -ECONNABORTED ...  the system's. Try again after a while,
 *            when there are descriptors: at once the call would return the same.
 * Errors, the connection is closed, since the poller has no room for it:
 *   -ENOSPC  fs.epoll.max_user_watches
 *   -ENOMEM  the kernel's memory
 */
GMP_API int gmp_accept(int fd);

/*
 * gmp_accept_from - gmp_accept that also gives the peer's address
 *
 * fd    a listening socket
 * addr  where to write it; NULL: nowhere, and len is not read
 * len   in: bytes that addr has room for; out: the address's length, larger than that if it was
 *       cut. Written only if a connection was accepted.
 *
 * Returns the connection, or an error as gmp_accept.
 * Errors, with no connection taken:
 *   -EINVAL  addr without len
 *   -EFAULT  addr or len reaches into the guard of the caller's stack
 */
GMP_API int gmp_accept_from(int fd, struct sockaddr *addr, socklen_t *len);

/*
 * gmp_local_addr - address of this end of a socket
 *
 * fd   a socket
 * buf  receives the address as gmp_listen and gmp_dial take it, with a terminating 0:
 *      "127.0.0.1:41234", "[::1]:80", "[fe80::1%eth0]:80", "/path"
 * n    bytes of buf
 *
 * Returns the length without the 0.
 * Errors:
 *   -ENOSPC        buf is too small
 *   -EINVAL        buf is NULL
 *   -EAFNOSUPPORT  a socket of another family
 *   -ENOTSOCK ...  the system's
 */
GMP_API int gmp_local_addr(int fd, char *buf, size_t n);

/*
 * gmp_peer_addr - address of the other end of a socket
 *
 * fd, buf, n  as gmp_local_addr
 *
 * Returns and errors: as gmp_local_addr, and
 *   -ENOTCONN  the socket has no peer
 */
GMP_API int gmp_peer_addr(int fd, char *buf, size_t n);

/* ----------------------------------------------- Adopt, wait, close */

/*
 * gmp_fd_adopt - register a descriptor that was opened elsewhere, and make it non-blocking
 *
 * fd  an open descriptor. A descriptor that cannot be polled (a regular file) stays as it is.
 *
 * O_NONBLOCK belongs to the open file, which other descriptors and processes may share, and the
 * number may be reused: docs/api/descriptors.md, "Adopted descriptors". An adoption ends no wait of
 * the number's present file.
 *
 * Returns fd.
 * Errors, nothing has changed:
 *   -EEXIST  gmp knows the descriptor already
 *   -EEXIST, -EINVAL  the descriptor is one of the runtime's own
 *   -EBADF   fd is not open
 *   -ESRCH   no runtime
 *   -ENOMEM, -ENOSPC  no memory, or no room in the poller (fs.epoll.max_user_watches)
 */
GMP_API int gmp_fd_adopt(int fd);

/*
 * gmp_fd_release - the reverse of gmp_fd_adopt: forget fd without closing it
 *
 * fd  a descriptor that gmp knows. Call this before the descriptor is closed; after that the number
 *     may be another connection's.
 *
 * Waiters of fd get -ECANCELED. O_NONBLOCK becomes as gmp_fd_adopt found it; what gmp opened itself
 * stays non-blocking.
 *
 * Returns 0.
 * Errors, nothing has changed:
 *   -EBADF  gmp does not know fd
 *   -EBADF  the caller has lost the number to another connection (docs/api/descriptors.md, "Lost
 *           numbers"). That connection and its waiters are not changed. GMP_DEBUG=check reports it.
 *   -ESRCH  no runtime
 *
 * Misuse, which gmp cannot tell from the release of a connection that was handed on, and which ends
 * the waits of the connection that has the number now:
 *   - a release or close by a thread that never adopted the earlier connection and never waited on
 *     it
 *   - by a thread that has read, written or waited on the number after its own descriptor was
 *     closed
 *   - by the thread that adopted both connections
 */
GMP_API int gmp_fd_release(int fd);

/* For gmp_fd_set_deadline and gmp_fd_wait. */
enum { GMP_READ = 1, GMP_WRITE = 2 };

/*
 * gmp_fd_set_deadline - set the deadline of all reads or writes of a descriptor
 *
 * fd        a descriptor that gmp knows
 * which     GMP_READ, GMP_WRITE, or both. gmp_accept reads.
 * deadline  nanoseconds on the clock of gmp_now(); GMP_FOREVER clears it
 *
 * After the deadline each call of that direction returns -ETIMEDOUT: the present wait, and each
 * later call, even if there is data. The deadline stays until it is moved: to a later time, and
 * calls work again, or to GMP_FOREVER. A deadline of a descriptor without a waiter does not keep a
 * deadlock from being reported.
 *
 * A deadline that is set before each read limits how long the peer is silent: a peer that keeps
 * sending a byte at a time is never late. To limit a whole request, set the deadline once, before
 * its first read. The deadline argument of an _until call and of gmp_fd_wait does not limit such a
 * loop: a deadline in the past makes one attempt, and the attempt succeeds while the peer keeps
 * sending. Compare gmp_now() with the deadline in the loop, or use this call.
 *
 * Returns 0.
 * Errors:
 *   -EINVAL  a bad `which`
 *   -EPERM   a descriptor that cannot be polled (a regular file) has no deadlines
 *   -ENOMEM  a million are set
 *
 * Source: Go's SetDeadline.
 *
 * Example:
 *   static void app(void *arg)
 *   {
 *           char buf[16];
 *           int p[2];
 *
 *           (void)arg;
 *           assert(pipe(p) == 0 && gmp_fd_adopt(p[0]) == p[0]);
 *           gmp_fd_set_deadline(p[0], GMP_READ, gmp_deadline(10 * GMP_MS));
 *           assert(gmp_read(p[0], buf, sizeof(buf)) == -ETIMEDOUT);
 *           gmp_close(p[0]);
 *           close(p[1]);
 *   }
 */
GMP_API int gmp_fd_set_deadline(int fd, int which, int64_t deadline);

/*
 * gmp_fd_wait - wait until a descriptor is ready, and leave reading and writing to another library
 *
 * fd        a descriptor that gmp knows: adopt the descriptor of the library (OpenSSL, libpq,
 *           curl), and wait here where the library asks to poll
 * events    GMP_READ, GMP_WRITE, or both
 * deadline  nanoseconds on the clock of gmp_now(). A deadline in the past makes one attempt: if the
 *           peer keeps sending, a loop of waits and reads with one deadline does not time out
 *           (gmp_fd_set_deadline). Deadlines of gmp_fd_set_deadline hold as well.
 *
 * Level-triggered. The library may close the number and open it again (libpq goes from one host to
 * the next): the next gmp_fd_wait finds the new file and treats it as adopted by its caller. A wait
 * that was under way when the number was closed by a plain close() ends with -ECANCELED: when gmp
 * sees the number in use again, and within a second otherwise.
 *
 * Cost: a wait that parks costs two system calls, poll(2) and epoll_ctl(2); a wait that need not
 * park, the first.
 *
 * Returns those of `events` that are ready, the end of the stream and errors among them, as poll(2)
 * has it.
 * Errors:
 *   -ETIMEDOUT  none is ready, and the deadline has passed; or one of gmp_fd_set_deadline has
 *   -EINVAL     bad `events`
 *   -ENOMEM     no memory to register a file that was opened again
 *
 * Example:
 *   static void app(void *arg)
 *   {
 *           int p[2];
 *           char c;
 *
 *           (void)arg;
 *           assert(pipe(p) == 0 && gmp_fd_adopt(p[0]) == p[0]);
 *           assert(gmp_fd_wait(p[0], GMP_READ, gmp_deadline(GMP_MS)) == -ETIMEDOUT);
 *           assert(write(p[1], "x", 1) == 1);
 *           assert(gmp_fd_wait(p[0], GMP_READ, GMP_FOREVER) == GMP_READ);
 *           assert(read(p[0], &c, 1) == 1);          // by the library
 *           gmp_fd_release(p[0]);
 *           close(p[0]);
 *           close(p[1]);
 *   }
 */
GMP_API int gmp_fd_wait(int fd, int events, int64_t deadline);

/*
 * gmp_poll - poll(2): wait until one of several descriptors is ready
 *
 * fds       descriptors and events, as for poll(2); a negative fd is ignored. gmp need not know the
 *           descriptors: they are not adopted, and O_NONBLOCK stays as it is. Descriptors that gmp
 *           knows may be among them, also while green threads read, write or wait for them.
 * n         how many; 0: sleep until the deadline
 * deadline  nanoseconds on the clock of gmp_now(). A deadline in the past makes one attempt;
 *           GMP_FOREVER waits indefinitely. Deadlines of gmp_fd_set_deadline have no effect.
 *
 * A descriptor that is closed while the call waits is POLLNVAL: at once if gmp_close closes it,
 * within a second if a plain close() does. If another file has got the number by then, the call
 * waits for that one. A descriptor that is not adopted stays in the runtime's epoll instance until
 * it is closed.
 *
 * Cost: if a descriptor is ready at once, that of poll(2). Otherwise three poll(2), one after the
 * wait, and an epoll_ctl(2) for each descriptor.
 *
 * Returns how many are ready; their revents are set as poll(2) sets them, those of the others are
 * 0. POLLHUP, POLLERR and POLLNVAL (a descriptor that is not open) are always reported. A regular
 * file is always ready.
 * Errors:
 *   -ETIMEDOUT  none is ready and the deadline has passed
 *   -ECANCELED  the calling green thread was cancelled (reported before -ETIMEDOUT)
 *   -EINVAL     n is above RLIMIT_NOFILE
 *   -EFAULT     fds is not readable
 *   -ENOMEM, -ENOSPC  no memory, or no room in the poller (fs.epoll.max_user_watches)
 *
 * Threads: any, also without a runtime: an external thread then sleeps in poll(2).
 *
 * Example:
 *   static void app(void *arg)
 *   {
 *           int a[2], b[2];
 *
 *           (void)arg;
 *           assert(pipe(a) == 0 && pipe(b) == 0);
 *
 *           struct pollfd p[2] = { { .fd = a[0], .events = POLLIN },
 *                                  { .fd = b[0], .events = POLLIN } };
 *
 *           assert(write(b[1], "x", 1) == 1);
 *           assert(gmp_poll(p, 2, gmp_deadline(50 * GMP_MS)) == 1 && p[1].revents == POLLIN);
 *           for (int i = 0; i < 2; i++) {
 *                   close(a[i]);
 *                   close(b[i]);
 *           }
 *   }
 */
GMP_API int gmp_poll(struct pollfd *fds, nfds_t n, int64_t deadline);

/*
 * gmp_shutdown - shutdown(2)
 *
 * fd, how  as for shutdown(2). Waiters that can get nothing more are woken.
 *
 * With SHUT_RDWR on a listening socket (tcp, unix), gmp_accept returns -EINVAL: the call under way
 * and each later one, also in a loop that is between two calls now. Connections that were not yet
 * accepted: tcp resets them; a unix socket still gives them to gmp_accept first. The number stays
 * the socket's until gmp_close.
 *
 * Returns 0.
 * Errors: as shutdown(2).
 */
GMP_API int gmp_shutdown(int fd, int how);

/*
 * gmp_close - close a descriptor that gmp opened or adopted
 *
 * fd  a descriptor that gmp knows
 *
 * Waiters of fd get -ECANCELED; the number is free when the call returns. A system call on fd that
 * is under way ends first: on a file, a call that the disk or file server does not answer delays
 * the close, and a gmp_fd_adopt of the number, indefinitely. Cancellation does not cut it short.
 *
 * A thread that is between two calls on fd is no waiter. Its next call is -EBADF or, if the number
 * has been reused by then, is a call on the new file: an accept loop takes connections from another
 * listener. So close a descriptor only if no other thread will use its number. To end the loop of
 * another thread, call gmp_shutdown (a socket) or gmp_cancel, and let that thread close the
 * descriptor when its loop has ended, or close it after a gmp_join.
 *
 * Returns 0, or the error of close(2) (the number is free all the same).
 * Errors, nothing is closed:
 *   -EBADF  gmp does not know fd
 *   -EBADF  the caller has lost the number to another connection (see gmp_fd_release); or the
 *           descriptor was closed by a plain close() and gmp_poll waits for the file that has the
 *           number now
 *   -ESRCH  no runtime
 *
 * Misuse: a close of a descriptor that a library has closed before. If another file got the number
 * and is not adopted, that file is closed, since it may be the caller's own (a library opened it
 * again, and gmp_fd_wait found it ready). GMP_DEBUG=check reports this.
 */
GMP_API int gmp_close(int fd);

/* ------------------------------------------------------- Read and write */

/*
 * gmp_read - read(2), waiting until there is data
 *
 * fd      a descriptor that gmp knows
 * buf, n  where to read to, and how many bytes at most
 *
 * On a TCP socket that gmp_dial or gmp_accept gave, a read that got less than n bytes is taken to
 * have emptied the socket. Such a socket must not get a protocol with records on top of it in the
 * kernel (kTLS); an adopted socket, opened elsewhere, may have it.
 *
 * Returns the number of bytes; 0 at the end of the stream.
 * Errors: those at the head of this file, and those of read(2).
 */
GMP_API ssize_t gmp_read(int fd, void *buf, size_t n);

/*
 * gmp_write - write(2), waiting until there is room
 *
 * fd      a descriptor that gmp knows
 * buf, n  what to write
 *
 * If the peer of a unix socket has shut down its reading side alone, the system does not wake a
 * writer that waits for room.
 *
 * Returns the number of bytes written, which may be less than n.
 * Errors: those at the head of this file, those of write(2), and
 *   -EPIPE  the peer has closed; no SIGPIPE is raised (a pipe: unless the program has changed the
 *           action of SIGPIPE during the run; docs/api/signals-and-fork.md)
 */
GMP_API ssize_t gmp_write(int fd, const void *buf, size_t n);

/*
 * gmp_read_full - read until n bytes have come, or the end of the stream
 *
 * fd, buf, n  as gmp_read
 *
 * Returns n, or a smaller count at the end of the stream.
 * Errors: as gmp_read. An error that comes partway is returned in place of the count.
 */
GMP_API ssize_t gmp_read_full(int fd, void *buf, size_t n);

/*
 * gmp_write_all - write n bytes
 *
 * fd, buf, n  as gmp_write. Two gmp_write_all on one descriptor do not interleave.
 *
 * Returns n.
 * Errors: as gmp_write. An error that comes partway is returned in place of the count.
 */
GMP_API ssize_t gmp_write_all(int fd, const void *buf, size_t n);

/*
 * gmp_readv - readv(2), waiting as gmp_read
 *
 * fd          a descriptor that gmp knows
 * iov, count  buffers, and how many: 0 to IOV_MAX
 *
 * Returns and errors: as gmp_read, and
 *   -EINVAL  count is negative or more than IOV_MAX, or iov is NULL and count is not 0
 */
GMP_API ssize_t gmp_readv(int fd, const struct iovec *iov, int count);

/*
 * gmp_writev - writev(2), waiting as gmp_write
 *
 * fd          a descriptor that gmp knows
 * iov, count  buffers, and how many: 0 to IOV_MAX
 *
 * Returns and errors: as gmp_write, and
 *   -EINVAL  count is negative or more than IOV_MAX, or iov is NULL and count is not 0
 */
GMP_API ssize_t gmp_writev(int fd, const struct iovec *iov, int count);

/*
 * gmp_recvfrom - recvfrom(2), waiting as gmp_read
 *
 * fd, buf, n     as gmp_read
 * flags          as for recvfrom(2). MSG_DONTWAIT makes one attempt; so do MSG_OOB and
 *                MSG_ERRQUEUE, for which the system does not wait either. MSG_WAITALL has no
 *                effect: use gmp_read_full.
 * addr, addrlen  as for recvfrom(2)
 *
 * Returns and errors: as gmp_read, and
 *   -EAGAIN  one attempt was made, and there is nothing
 *   -EINVAL  addr without addrlen
 */
GMP_API ssize_t gmp_recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *addr,
			     socklen_t *addrlen);

/*
 * gmp_sendto - sendto(2), waiting as gmp_write
 *
 * fd, buf, n     as gmp_write
 * flags          as for sendto(2). MSG_DONTWAIT makes one attempt.
 * addr, addrlen  as for sendto(2)
 *
 * A message by address to a unix socket whose queue is full is tried again every 16 ms at most, as
 * the system does not report when there is room.
 *
 * Returns and errors: as gmp_write, and
 *   -EAGAIN  one attempt was made, and there is no room
 *   -EINVAL  addrlen is more than a struct sockaddr_storage
 */
GMP_API ssize_t gmp_sendto(int fd, const void *buf, size_t n, int flags,
			   const struct sockaddr *addr, socklen_t addrlen);

/*
 * gmp_recvmsg - recvmsg(2), waiting as gmp_read
 *
 * fd     a descriptor that gmp knows
 * m      as for recvmsg(2). Descriptors that come with the message are plain ones: gmp_fd_adopt.
 * flags  as gmp_recvfrom
 *
 * Returns and errors: as gmp_read, and
 *   -EAGAIN  one attempt was made, and there is nothing
 *   -EINVAL  m is NULL
 */
GMP_API ssize_t gmp_recvmsg(int fd, struct msghdr *m, int flags);

/*
 * gmp_sendmsg - sendmsg(2), waiting as gmp_write
 *
 * fd     a descriptor that gmp knows
 * m      as for sendmsg(2)
 * flags  as gmp_sendto, which also says how a message to a full unix socket is tried again
 *
 * Returns and errors: as gmp_write, and
 *   -EAGAIN  one attempt was made, and there is no room
 *   -EINVAL  m is NULL
 */
GMP_API ssize_t gmp_sendmsg(int fd, const struct msghdr *m, int flags);

/*
 * gmp_sendfile - sendfile(2), waiting until `out` has room
 *
 * out     a descriptor that gmp knows
 * in      a file of any kind that sendfile(2) takes; gmp need not know it
 * offset  as for sendfile(2)
 * n       bytes at most
 *
 * Returns the number of bytes sent, which may be less than n.
 * Errors: as gmp_write, and those of sendfile(2).
 */
GMP_API ssize_t gmp_sendfile(int out, int in, off_t *offset, size_t n);

/* ------------------------------------------------------------------- Files */

/*
 * gmp_open - open(2) that keeps no P while it waits for a disk, a file server or the other end of a
 * FIFO
 *
 * path, flags, mode  as for open(2); O_CLOEXEC is added
 *
 * What can be polled (a FIFO, a terminal) is made non-blocking after it is open, and gmp_read waits
 * as on a socket; on anything else gmp_read and gmp_write are blocking code. Cancellation does not
 * cut the call short. Close the descriptor by gmp_close.
 *
 * Returns the descriptor.
 * Errors:
 *   -EINVAL  path is NULL
 *   -ESRCH   no runtime, or it has stopped meanwhile
 *   -ENOMEM, -ENOSPC  no memory, or no room in the poller
 *   -ENOENT, -EACCES ...  those of open(2)
 *
 * Example:
 *   static void app(void *arg)
 *   {
 *           char name[] = "/tmp/gmp-example-XXXXXX", buf[5];
 *
 *           (void)arg;
 *           close(mkstemp(name));
 *
 *           int fd = gmp_open(name, O_RDWR, 0);
 *
 *           assert(gmp_pwrite(fd, "hello", 5, 0) == 5 && gmp_fsync(fd) == 0);
 *           assert(gmp_pread(fd, buf, 5, 0) == 5 && memcmp(buf, "hello", 5) == 0);
 *           gmp_close(fd);
 *           unlink(name);
 *   }
 */
GMP_API int gmp_open(const char *path, int flags, mode_t mode);

/*
 * gmp_pread - pread(2) that keeps no P while it waits for a disk
 *
 * fd      a descriptor that gmp knows
 * buf, n  where to read to, and how many bytes at most
 * at      offset in the file, in bytes
 *
 * What is in memory is read at once. The rest goes through io_uring or blocking code, with the same
 * results: docs/api/descriptors.md, "Files". Cancellation does not cut it short.
 *
 * Returns the number of bytes; 0 at the end of the file.
 * Errors: -EBADF, -ESRCH, -EFAULT as at the head of this file, those of pread(2), and
 *   -EINVAL     at is negative
 *   -ECANCELED  fd was closed before the call had its result
 */
GMP_API ssize_t gmp_pread(int fd, void *buf, size_t n, off_t at);

/*
 * gmp_pwrite - pwrite(2) that keeps no P while it waits for a disk
 *
 * fd, at  as gmp_pread
 * buf, n  what to write
 *
 * Returns the number of bytes written.
 * Errors: as gmp_pread, with those of pwrite(2).
 */
GMP_API ssize_t gmp_pwrite(int fd, const void *buf, size_t n, off_t at);

/*
 * gmp_fsync - fsync(2) that keeps no P while it waits for a disk
 *
 * fd  a descriptor that gmp knows
 *
 * Returns 0.
 * Errors: -EBADF, -ESRCH and -ECANCELED as for gmp_pread, and those of fsync(2).
 */
GMP_API int gmp_fsync(int fd);

/* -------------------------------------------------------------- Host names */

struct addrinfo;

/*
 * gmp_getaddrinfo - getaddrinfo(3) that keeps no P
 *
 * host, service, hints  as for getaddrinfo(3)
 * res                   receives the result; free it by freeaddrinfo
 *
 * The look-up is blocking code of a green thread of its own, and the caller is parked. At most half
 * of gmp_config.max_threads look up at a time; other calls wait. Hosts and services in digits are
 * answered at once.
 *
 * Returns 0 or an EAI_ code of getaddrinfo(3), which is negative and never an errno value:
 *   EAI_AGAIN     also: no runtime, or it stops during the call
 *   EAI_CANCELED  the calling green thread was cancelled; EAI_AGAIN if libc does not have this code
 *   EAI_NONAME    also: res is NULL
 */
GMP_API int gmp_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
			    struct addrinfo **res);

/*
 * gmp_getaddrinfo_until - gmp_getaddrinfo, or give up at a deadline
 *
 * host, service, hints, res  as gmp_getaddrinfo
 * deadline                   nanoseconds on the clock of gmp_now(), whatever the resolver does
 *
 * Returns as gmp_getaddrinfo; EAI_AGAIN also if the deadline passed.
 *
 * Example:
 *   static void app(void *arg)
 *   {
 *           struct addrinfo *a;
 *
 *           (void)arg;
 *           if (gmp_getaddrinfo_until("127.0.0.1", "80", NULL, &a, gmp_deadline(2 * GMP_S)) == 0)
 *                   freeaddrinfo(a);
 *   }
 */
GMP_API int gmp_getaddrinfo_until(const char *host, const char *service,
				  const struct addrinfo *hints, struct addrinfo **res,
				  int64_t deadline);

#ifdef __cplusplus
}
#endif

#endif
