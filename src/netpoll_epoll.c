/* SPDX-License-Identifier: MIT */
/*
 * Poller for Linux: epoll, and an eventfd that ends a wait.
 *
 * Timeouts are nanoseconds if the kernel has epoll_pwait2 (5.11), otherwise rounded up to
 * milliseconds.
 *
 * Invariants
 *   EPOLL-1  The eventfd is always readable and registered once (EPOLLONESHOT).  A wake arms it
 *            again by EPOLL_CTL_MOD, and the wait that reports it disarms it.  So nothing is ever
 *            written to an fd whose number may have been reused, and a wait need not read.
 *   EPOLL-2  The program may have closed both fds (closefrom, close_range), and their numbers may
 *            be in use again.  Both are moved above the numbers that programs use (os_fd_raise).
 *            Every call that fails for such a reason is fatal: a wait, a wake, or a registration
 *            after which the eventfd cannot be armed either (wake_arm_or_die).  Another epoll
 *            instance under the number is found when a registration is missing (poller.verify).
 */
#include "poller.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/errtext.h"
#include "base/os.h"
#include "base/san.h"
#include "base/throw.h"

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

enum { WAKE_KEY = 0, MAX_EVENTS = 128 }; /* netpoll's keys are never 0 */

static struct {
	int epfd, wakefd;
	bool no_pwait2; /* (a) the kernel has none, or a filter forbids it */
	/* (a) futex; 1: a wake has come that no sleeper has seen.  Then the eventfd is armed, or
	 * about to be, if a thread sleeps in the kernel */
	uint32_t waking;
	bool resting;  /* (a) the waiting thread sleeps on `waking` */
	bool sleeping; /* (a) a thread is in a wait with ns != 0, or about to be */
} ep = {
	.epfd = -1,
	.wakefd = -1,
#ifdef SAN_THREAD
	.no_pwait2 = true, /* the sanitizer runs no signal handlers in it */
#endif
};

static void ep_close(void)
{
	os_fd_set_own(ep.wakefd, false);
	os_fd_set_own(ep.epfd, false);
	if (ep.wakefd >= 0)
		close(ep.wakefd);
	if (ep.epfd >= 0)
		close(ep.epfd);
	ep.wakefd = ep.epfd = -1;
}

static int ep_open(void)
{
	struct epoll_event e = { .events = EPOLLONESHOT, .data.u64 = WAKE_KEY };
	int err;

	ep.waking = 0;
	ep.resting = ep.sleeping = false;
	ep.epfd = epoll_create1(EPOLL_CLOEXEC);
	if (ep.epfd < 0)
		return -errno;
	ep.wakefd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
	if (ep.wakefd >= 0) {
		ep.epfd = os_fd_raise(ep.epfd);
		ep.wakefd = os_fd_raise(ep.wakefd);
		os_fd_set_own(ep.epfd, true);
		os_fd_set_own(ep.wakefd, true);
		if (epoll_ctl(ep.epfd, EPOLL_CTL_ADD, ep.wakefd, &e) == 0)
			return 0;
	}
	err = -errno;
	ep_close();
	return err;
}

/* EPOLL-2: fd was closed by the program. */
__attribute__((noreturn)) static noinline void ep_lost(const char *what, int fd, int err)
{
	gmp__fatal(
		"the %s of the poller, descriptor %d, is gone (%s, errno %d): the program has "
		"closed it or reused its number (closefrom, close_range?); leave the descriptors "
		"from %d on open while gmp runs",
		what, fd, errtext(err), err, os_fd_raised());
}

__attribute__((noreturn)) static noinline void ep_refused(const char *call, int err)
{
	gmp__fatal("the kernel refuses %s(2) (%s, errno %d): a seccomp filter must allow it", call,
		   errtext(err), err);
}

/* Is err the answer of a seccomp filter?  EPERM may also mean that the eventfd's number was reused
 * for a regular file; then a new epoll instance gives another error. */
static bool ctl_is_refused(int err)
{
	int fd = epoll_create1(EPOLL_CLOEXEC);
	bool refused = fd >= 0 && epoll_ctl(fd, EPOLL_CTL_DEL, fd, NULL) < 0 && errno == err;

	if (fd >= 0)
		close(fd);
	return refused && err != EINVAL; /* EINVAL: its own descriptor */
}

/* EPOLL-1.  Returns 0 or errno. */
static int wake_arm(void)
{
	struct epoll_event e = { .events = EPOLLIN | EPOLLONESHOT, .data.u64 = WAKE_KEY };

	return epoll_ctl(ep.epfd, EPOLL_CTL_MOD, ep.wakefd, &e) == 0 ? 0 : errno;
}

/* Also called after an error that an fd of the program may have caused; then a wait may return
 * early. */
static void wake_arm_or_die(void)
{
	int err = ep.epfd < 0 ? 0 : wake_arm();

	if (err && ctl_is_refused(err))
		ep_refused("epoll_ctl", err);
	if (err == EBADF || err == EINVAL || err == EPERM)
		ep_lost("epoll instance", ep.epfd, err);
	if (err == ENOENT) /* EPOLL-2: both are open, and at least one has another file */
		ep_lost("epoll instance or the eventfd", ep.epfd, err);
	if (err)
		ep_lost("eventfd", ep.wakefd, err);
}

enum { EDGES = EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | (int)EPOLLET };

static int ep_ctl(int op, int fd, uint64_t key, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.u64 = key };

	if (likely(epoll_ctl(ep.epfd, op, fd, &e) == 0))
		return 0;
	int err = errno;

	/* ENOENT: fd may be unknown, or the number may belong to another epoll instance */
	if (err == EBADF || err == EINVAL || err == ENOENT || err == ENOSYS || err == EACCES)
		wake_arm_or_die();
	return -err;
}

static int ep_add(int fd, uint64_t key)
{
	return ep_ctl(EPOLL_CTL_ADD, fd, key, (uint32_t)EDGES);
}

static int ep_rekey(int fd, uint64_t key)
{
	return ep_ctl(EPOLL_CTL_MOD, fd, key, (uint32_t)EDGES);
}

_Static_assert(POLLIN == EPOLLIN && POLLPRI == EPOLLPRI && POLLOUT == EPOLLOUT &&
		       POLLRDHUP == EPOLLRDHUP && POLLRDNORM == EPOLLRDNORM &&
		       POLLWRBAND == EPOLLWRBAND,
	       "poll(2)'s bits are epoll's");

static int ep_once(int fd, uint64_t key, short events, bool add)
{
	return ep_ctl(add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, key,
		      (uint16_t)events | (uint32_t)EPOLLONESHOT);
}

static int ep_del(int fd)
{
	return ep_ctl(EPOLL_CTL_DEL, fd, 0, 0);
}

/* By the system call: a preloaded library may lengthen the wait of libc's epoll_wait. */
static int wait_ms(struct epoll_event *e, int max, int ms)
{
#ifdef SAN_THREAD
	return epoll_wait(ep.epfd, e, max, ms); /* as no_pwait2 */
#elif defined(SYS_epoll_wait)
	return (int)syscall(SYS_epoll_wait, ep.epfd, e, max, ms);
#else
	return (int)syscall(SYS_epoll_pwait, ep.epfd, e, max, ms, NULL, 0);
#endif
}

static int wait_ns(struct epoll_event *e, int max, int64_t ns)
{
	if (ns != 0 && ns != NEVER && !ld_rlx(&ep.no_pwait2)) {
		struct timespec ts = { .tv_sec = ns / S, .tv_nsec = ns % S };
		long n = syscall(SYS_epoll_pwait2, ep.epfd, e, max, &ts, NULL, 0);

		if (n >= 0 || errno == EINTR)
			return (int)n;
		if (errno == ENOSYS || errno == EPERM)
			st_rlx(&ep.no_pwait2, true);
	}
	int64_t ms = ns == NEVER ? -1 : ns / MS + (ns % MS != 0);
	int n = wait_ms(e, max, (int)min_of(ms, (int64_t)INT32_MAX));

	if (unlikely(n < 0) && (errno == EBADF || errno == EINVAL))
		ep_lost("epoll instance", ep.epfd, errno);
	if (unlikely(n < 0) && errno != EINTR)
		ep_refused("epoll_wait", errno);
	return n;
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

/*
 * A wait with ns == 0 may take the event of the eventfd that a sleeping thread needs: it arms the
 * eventfd again.  If no thread sleeps, it leaves the wake in the word, for the next sleeper: arming
 * would cost a system call at each of these waits until then.
 *
 *   sleeper (ns != 0)                         wait with ns == 0
 *    1 sleeping = true                         1 the eventfd is reported, and disarmed
 *    2 if waking: do not sleep                 2 if sleeping: arm it
 *
 * If the sleeper has read waking == 0, the wake, its arming and step 2 of the other come later.
 */
static int ep_wait(struct poll_event *events, int max, int64_t ns)
{
	struct epoll_event e[MAX_EVENTS];
	bool sleeps = ns != 0, woken = false;
	int n = 0;

	if (sleeps) {
		st_seq(&ep.sleeping, true); /* ORD(poller.waking): before the word is read */
		woken = ld_seq(&ep.waking); /* ORD(poller.waking) */
	}
	int got = wait_ns(e, min_of(max, (int)MAX_EVENTS), woken ? 0 : ns);

	if (sleeps)
		st_seq(&ep.sleeping, false); /* ORD(poller.waking) */
	for (int i = 0; i < got; i++) {
		if (e[i].data.u64 != WAKE_KEY)
			events[n++] = (struct poll_event){ e[i].data.u64, events_of(e[i].events) };
		else if (sleeps)
			woken = true;
		else if (ld_seq(&ep.sleeping)) /* ORD(poller.waking) */
			wake_arm_or_die();
	}
	/* The eventfd is disarmed first, the word cleared second.  A wake between the two arms
	 * nothing, but it comes before this wait returns, and the exchange makes its caller's
	 * writes visible to ours. */
	if (woken)
		(void)xchg_seq(&ep.waking, 0); /* ORD(poller.waking) */
	return n;
}

/*
 * Race with ep_wake: the word is cleared last.  A wake before that has read `resting`, or has set
 * the word before the futex reads it; a later one arms the eventfd.  A waker that has read
 * `resting` too early arms it too: a spurious wakeup of the next wait.
 */
static void ep_rest(int64_t deadline)
{
	st_seq(&ep.resting, true); /* ORD(poller.waking): before the futex reads the word */
	os_futex_wait(&ep.waking, 0, deadline);
	st_seq(&ep.resting, false);    /* ORD(poller.waking) */
	(void)xchg_seq(&ep.waking, 0); /* ORD(poller.waking) */
}

static void ep_wake(void)
{
	if (xchg_seq(&ep.waking, 1)) /* ORD(poller.waking): one call serves all wakers */
		return;
	if (ld_seq(&ep.resting)) { /* ORD(poller.waking) */
		os_futex_wake(&ep.waking, 1);
		return;
	}
	wake_arm_or_die();
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
	.verify = wake_arm_or_die,
	.reports_urgent = true,
};
