/* SPDX-License-Identifier: MIT */
/*
 * Tests the cost of sending a datagram to a peer with a full queue. The kernel reports such a
 * socket as writable all the time, so the sender must back off. The wrapped sendmsg counts the
 * tries. Its cases compare times: each needs a CPU.
 *
 * floors 0..6, wrap: sendmsg
 */
#define _GNU_SOURCE 1
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/atomic.h"
#include "rt.h"

ssize_t __real_sendmsg(int fd, const struct msghdr *m, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags);

static int tries; /* (a) */

ssize_t __wrap_sendmsg(int fd, const struct msghdr *m, int flags)
{
	add_seq(&tries, 1);
	return __real_sendmsg(fd, m, flags);
}

struct peer {
	struct sockaddr_un at;
	socklen_t n;
	int fd;
};

static struct peer full, other;
static int tx;
static ssize_t expected;

static void make_peer(struct peer *p, const char *name)
{
	*p = (struct peer){ .at = { .sun_family = AF_UNIX },
			    .fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
	int n = snprintf(p->at.sun_path + 1, sizeof(p->at.sun_path) - 1, "gmp-%s-%d", name,
			 (int)getpid());

	p->n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	CHECK(p->fd >= 0);
	CHECK_EQ(bind(p->fd, (struct sockaddr *)&p->at, p->n), 0);
}

static ssize_t send_to(const struct peer *p, int flags)
{
	return gmp_sendto(tx, "x", 1, flags, (const struct sockaddr *)&p->at, p->n);
}

static void send_to_full(void *arg)
{
	(void)arg;
	CHECK_EQ(send_to(&full, 0), expected);
}

static void *send_external(void *arg)
{
	send_to_full(arg);
	return NULL;
}

/* Another socket fills the peer's queue; tx has sent nothing. */
static void begin(void)
{
	int filler = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	make_peer(&full, "full");
	make_peer(&other, "other");
	while (sendto(filler, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&full.at, full.n) == 1)
		;
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(close(filler), 0);
	tx = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK_EQ(gmp_fd_adopt(tx), tx);
	st_seq(&tries, 0);
}

static void end(void)
{
	gmp_close(tx); /* the case may have closed it */
	CHECK_EQ(close(full.fd), 0);
	CHECK_EQ(close(other.fd), 0);
}

static gmp_g *start_sender(ssize_t result)
{
	gmp_g *g;

	expected = result;
	CHECK_EQ(gmp_spawn(&g, send_to_full, NULL, NULL), 0);
	while (ld_seq(&tries) == 0)
		gmp_yield();
	return g;
}

static void send_and_count(void *arg)
{
	int64_t t = gmp_now();
	char c;

	(void)arg;
	begin();
	CHECK_EQ(send_to(&full, MSG_DONTWAIT), -EAGAIN);
	CHECK_EQ(ld_seq(&tries), 1);
	st_seq(&tries, 0);
	gmp_g *g = start_sender(1);

	gmp_sleep(50 * MS);
	CHECK(ld_seq(&tries) <= 6 + (gmp_now() - t) / (16 * MS));
	CHECK_EQ(send_to(&other, 0), 1); /* a send to another peer does not wait */
	CHECK_EQ(recv(full.fd, &c, 1, 0), 1);
	CHECK_EQ(gmp_join(g), 0);
	end();
}

TEST_PROCS(sendto_full_peer_retries_with_backoff_and_blocks_no_other)
{
	run_procs(procs, send_and_count, NULL);
}

static void end_by_deadline(void *arg)
{
	(void)arg;
	begin();
	gmp_g *g = start_sender(-ETIMEDOUT);

	CHECK_EQ(gmp_fd_set_deadline(tx, GMP_WRITE, gmp_deadline(5 * MS)), 0);
	CHECK_EQ(gmp_join(g), 0);
	end();
}

TEST_PROCS(sendto_full_peer_returns_etimedout_at_deadline)
{
	run_procs(procs, end_by_deadline, NULL);
}

static void end_by_close(void *arg)
{
	(void)arg;
	begin();
	gmp_g *g = start_sender(-ECANCELED);

	CHECK_EQ(gmp_close(tx), 0);
	/* The deadline of the new socket with this fd does not end the old wait. */
	tx = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	CHECK_EQ(gmp_fd_adopt(tx), tx);
	CHECK_EQ(gmp_fd_set_deadline(tx, GMP_WRITE, 0), 0);
	CHECK_EQ(gmp_join(g), 0);
	end();
}

TEST_PROCS(sendto_full_peer_returns_ecanceled_on_close)
{
	run_procs(procs, end_by_close, NULL);
}

static void end_by_cancel(void *arg)
{
	(void)arg;
	begin();
	gmp_g *g = start_sender(-ECANCELED);

	CHECK_EQ(gmp_cancel(g), 0);
	CHECK_EQ(gmp_join(g), 0);
	end();
}

TEST_PROCS(sendto_full_peer_returns_ecanceled_on_cancel)
{
	run_procs(procs, end_by_cancel, NULL);
}

static void end_by_external_send(void *arg)
{
	pthread_t t;
	char c;

	(void)arg;
	begin();
	expected = 1;
	CHECK_EQ(pthread_create(&t, NULL, send_external, NULL), 0);
	while (ld_seq(&tries) == 0)
		gmp_yield();
	CHECK_EQ(recv(full.fd, &c, 1, 0), 1);
	CHECK_EQ(pthread_join(t, NULL), 0);
	end();
}

TEST_PROCS(sendto_full_peer_by_external_thread_sends_when_room)
{
	run_procs(procs, end_by_external_send, NULL);
}

static void leave_sender(void *arg)
{
	(void)arg;
	begin();
	start_sender(-ESRCH); /* killed at shutdown: not checked */
}

TEST_PROCS(sendto_full_peer_does_not_delay_shutdown)
{
	run_procs(procs, leave_sender, NULL);
}
