/* SPDX-License-Identifier: MIT */
/* How does Linux say that a descriptor has become ready?  By epoll, and an eventfd to break a
 * wait.  Timeouts are nanoseconds where the kernel has epoll_pwait2 (5.11), else rounded up to
 * milliseconds. */
#include "poller.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/os.h"
#include "base/san.h"

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

enum { WAKE_KEY = 0, MAX_EVENTS = 128 }; /* netpoll's keys are never 0 */

static struct {
	int epfd, wakefd;
	bool no_pwait2; /* (a) the kernel has none, or a filter forbids it */
	uint32_t
		waking; /* (a) futex: a wake has come that no wait has seen; unless it rests, it stands in the eventfd */
	bool resting; /* (a) who waits sleeps on that word */
} ep = {
	.epfd = -1,
	.wakefd = -1,
#ifdef SAN_THREAD
	.no_pwait2 = true, /* it would not run handlers of signals there */
#endif
};

static void ep_close(void)
{
	if (ep.wakefd >= 0)
		close(ep.wakefd);
	if (ep.epfd >= 0)
		close(ep.epfd);
	ep.wakefd = ep.epfd = -1;
}

static int ep_open(void)
{
	struct epoll_event e = { .events = EPOLLIN, .data.u64 = WAKE_KEY };
	int err;

	ep.waking = 0;
	ep.resting = false;
	ep.epfd = epoll_create1(EPOLL_CLOEXEC);
	if (ep.epfd < 0)
		return -errno;
	ep.wakefd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (ep.wakefd >= 0 && epoll_ctl(ep.epfd, EPOLL_CTL_ADD, ep.wakefd, &e) == 0)
		return 0;
	err = -errno;
	ep_close();
	return err;
}

enum { EDGES = EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | (int)EPOLLET };

static int control(int op, int fd, uint64_t key, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.u64 = key };

	return epoll_ctl(ep.epfd, op, fd, &e) == 0 ? 0 : -errno;
}

static int ep_add(int fd, uint64_t key)
{
	return control(EPOLL_CTL_ADD, fd, key, (uint32_t)EDGES);
}

static int ep_rekey(int fd, uint64_t key)
{
	return control(EPOLL_CTL_MOD, fd, key, (uint32_t)EDGES);
}

_Static_assert(POLLIN == EPOLLIN && POLLPRI == EPOLLPRI && POLLOUT == EPOLLOUT &&
		       POLLRDHUP == EPOLLRDHUP && POLLRDNORM == EPOLLRDNORM &&
		       POLLWRBAND == EPOLLWRBAND,
	       "poll(2)'s bits are epoll's");

static int ep_once(int fd, uint64_t key, short events, bool add)
{
	return control(add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, key,
		       (uint16_t)events | (uint32_t)EPOLLONESHOT);
}

static int ep_del(int fd)
{
	struct epoll_event e = { 0 };

	return epoll_ctl(ep.epfd, EPOLL_CTL_DEL, fd, &e) == 0 ? 0 : -errno;
}

static int wait_ns(struct epoll_event *e, int max, int64_t ns)
{
	if (ns != 0 && ns != NEVER && !ld_rlx(&ep.no_pwait2)) {
		struct timespec ts = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
		long n = syscall(SYS_epoll_pwait2, ep.epfd, e, max, &ts, NULL, 0);

		if (n >= 0 || (errno != ENOSYS && errno != EPERM))
			return (int)n;
		st_rlx(&ep.no_pwait2, true);
	}
	int64_t ms = ns == NEVER ? -1 : ns / 1000000 + (ns % 1000000 != 0);

	return epoll_wait(ep.epfd, e, max, (int)min_of(ms, (int64_t)INT32_MAX));
}

static unsigned events_of(uint32_t e)
{
	unsigned out = 0;

	if (e & (EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		out |= POLL_READ;
	if (e & (EPOLLOUT | EPOLLHUP | EPOLLERR))
		out |= POLL_WRITE;
	if (e & (EPOLLPRI | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		out |= POLL_HUNG;
	return out;
}

/* Tricky: read first, clear second.  A wake that comes between the two writes nothing, but it comes
 * before this wait returns, and the exchange makes what its caller did visible to ours.  The other
 * way round, its write could be read away while `waking` stays set, and no wake would come again. */
static void drain_wake(void)
{
	uint64_t n;
	ssize_t got = read(ep.wakefd, &n, sizeof(n));

	(void)got; /* nothing there: a wake that has not written yet, and will for the next wait */
	(void)xchg_seq(&ep.waking, 0); /* ORD(poller.waking) */
}

static int ep_wait(struct poll_event *events, int max, int64_t ns)
{
	struct epoll_event e[MAX_EVENTS];
	int got = wait_ns(e, min_of(max, (int)MAX_EVENTS), ns), n = 0;

	for (int i = 0; i < got; i++) {
		if (e[i].data.u64 == WAKE_KEY) {
			/* a poll that does not wait leaves the wake to the one that does */
			if (ns != 0)
				drain_wake();
			continue;
		}
		events[n++] = (struct poll_event){ e[i].data.u64, events_of(e[i].events) };
	}
	return n;
}

/* Tricky: the word is cleared last.  A wake that came before that has seen us rest, or finds the word set
 * as we lie down; one that comes later writes to the eventfd.  Who has seen us not rest yet may write
 * there, too: the next wait returns at once, for nothing. */
static void ep_rest(int64_t deadline)
{
	st_seq(&ep.resting, true); /* ORD(poller.waking): before the kernel looks at the word */
	os_futex_wait(&ep.waking, 0, deadline);
	st_seq(&ep.resting, false);    /* ORD(poller.waking) */
	(void)xchg_seq(&ep.waking, 0); /* ORD(poller.waking) */
}

static void ep_wake(void)
{
	uint64_t one = 1;

	if (xchg_seq(&ep.waking, 1)) /* ORD(poller.waking): one write serves them all */
		return;
	if (ld_seq(&ep.resting)) { /* ORD(poller.waking) */
		os_futex_wake(&ep.waking, 1);
		return;
	}
	if (write(ep.wakefd, &one, sizeof(one)) < 0)
		return; /* full: then it wakes anyway */
}

const struct poller gmp__poller = {
	.open = ep_open,
	.close = ep_close,
	.add = ep_add,
	.rekey = ep_rekey,
	.once = ep_once,
	.del = ep_del,
	.wait = ep_wait,
	.rest = ep_rest,
	.wake = ep_wake,
};
