/* SPDX-License-Identifier: MIT */
/*
 * Emulation of FreeBSD's kqueue over two epoll instances and an eventfd.
 *
 * The read knotes of a kqueue are registrations of one epoll instance, the write knotes of another:
 * so an arrival of data activates no write knote.  The number of the first instance is the number
 * of the kqueue.  User events are entries of a table; the eventfd is readable while one is
 * triggered.
 *
 *   EV_CLEAR                 EPOLLET
 *   EV_DISPATCH, EV_ONESHOT  EPOLLONESHOT; then the knote is disabled, or gone
 *   EV_DISABLE               not registered with epoll
 *   a change of a knote      EPOLL_CTL_MOD: evaluates the present state, as FreeBSD does
 *   EV_EOF of a read knote   EPOLLRDHUP, EPOLLHUP, EPOLLERR
 *   EV_EOF of a write knote  EPOLLHUP, EPOLLERR
 *   NOTE_LOWAT               only EV_EOF: the mark is taken as larger than any buffer; pipes have
 *                            none
 *
 * As FreeBSD
 *   A change of an existing knote replaces its udata, but not EV_CLEAR, EV_DISPATCH, EV_ONESHOT.
 *   A knote belongs to the fd number: close, dup2, dup3, close_range and closefrom remove it.
 *   They, and syscall, replace libc's functions in the program that is linked with this file.
 *   libc's own calls are not seen (fclose); the knote is then gone with the next change, which
 *   finds no registration.
 *   A regular file is accepted; /dev/null is refused with ENODEV.  A write knote of a pipe whose
 *   other end is closed is refused with EPIPE.  NOTE_TRIGGER beside EV_ADD does not trigger.  The
 *   child of a fork has no kqueue.
 *
 * Not emulated: other filters and notes, the numbers in `data`, errors in `fflags`, EV_EOF that
 * stays set, and readiness of regular files.
 */
#include "kqueue.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "include/sys/event.h"

#define EXPORT __attribute__((visibility("default")))

enum { KQUEUES = 8, NUMBERS = 4, USERS = 64, FDS = 1 << 15, BATCH = 32, RAISED = 970 };
enum { READ_SIDE, WRITE_SIDE, SIDES };

struct knote {
	bool exists, disabled, of_pipe;
	unsigned short flags; /* EV_CLEAR, EV_DISPATCH, EV_ONESHOT: as it was made */
	unsigned fflags;
	uint32_t generation; /* in the events of epoll: those of a former knote are dropped */
	void *udata;
};

struct user_note {
	bool exists, triggered;
	uintptr_t ident;
	unsigned short flags;
	void *udata;
};

static struct kq {
	bool open;
	int number[NUMBERS]; /* of the first instance and its dups; -1: free */
	int ep[SIDES];
	int triggers; /* the eventfd */
	unsigned scans;
	struct knote (*notes)[SIDES]; /* FDS entries */
	struct user_note users[USERS];
} kqs[KQUEUES];

static atomic_flag lock = ATOMIC_FLAG_INIT;
static atomic_bool noted[FDS]; /* some kqueue has, or had, a knote of the number */

static void acquire(void)
{
	while (atomic_flag_test_and_set(&lock))
		sched_yield();
}

static void release(void)
{
	atomic_flag_clear(&lock);
}

static long (*raw)(long nr, ...); /* libc's syscall */

__attribute__((constructor)) static void find_raw(void)
{
	*(void **)&raw = dlsym(RTLD_NEXT, "syscall");
}

static int close_raw(int fd)
{
	return (int)raw(SYS_close, fd);
}

/* --- kqueues --- */

static struct kq *find(int fd)
{
	for (int i = 0; i < KQUEUES; i++)
		for (int k = 0; kqs[i].open && k < NUMBERS; k++)
			if (fd >= 0 && kqs[i].number[k] == fd)
				return &kqs[i];
	return NULL;
}

static int raise_fd(int fd)
{
	int raised = fcntl(fd, F_DUPFD_CLOEXEC, RAISED);

	if (raised < 0)
		return fd;
	close_raw(fd);
	return raised;
}

static void forget_in_child(void)
{
	atomic_flag_clear(&lock);
	for (int i = 0; i < KQUEUES; i++) {
		struct kq *q = &kqs[i];

		if (!q->open)
			continue;
		for (int k = 0; k < NUMBERS; k++)
			if (q->number[k] >= 0)
				close_raw(q->number[k]);
		close_raw(q->ep[WRITE_SIDE]);
		close_raw(q->triggers);
		munmap(q->notes, sizeof(*q->notes) * FDS);
		memset(q, 0, sizeof(*q));
	}
}

static bool fill(struct kq *q)
{
	q->notes = mmap(NULL, sizeof(*q->notes) * FDS, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	q->ep[READ_SIDE] = epoll_create1(EPOLL_CLOEXEC);
	q->ep[WRITE_SIDE] = epoll_create1(EPOLL_CLOEXEC);
	q->triggers = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (q->notes != MAP_FAILED && q->ep[READ_SIDE] >= 0 && q->ep[WRITE_SIDE] >= 0 &&
	    q->triggers >= 0) {
		q->ep[WRITE_SIDE] = raise_fd(q->ep[WRITE_SIDE]);
		q->triggers = raise_fd(q->triggers);
		return true;
	}
	int err = errno;

	if (q->notes != MAP_FAILED)
		munmap(q->notes, sizeof(*q->notes) * FDS);
	for (int side = 0; side < SIDES; side++)
		if (q->ep[side] >= 0)
			close_raw(q->ep[side]);
	if (q->triggers >= 0)
		close_raw(q->triggers);
	errno = err;
	return false;
}

static int open_kqueue(void)
{
	for (int i = 0; i < KQUEUES; i++) {
		struct kq *q = &kqs[i];

		if (q->open)
			continue;
		memset(q, 0, sizeof(*q));
		if (!fill(q))
			return -1;
		for (int k = 0; k < NUMBERS; k++)
			q->number[k] = k == 0 ? q->ep[READ_SIDE] : -1;
		q->open = true;
		/* as FreeBSD: without close-on-exec */
		fcntl(q->number[0], F_SETFD, 0);
		return q->number[0];
	}
	errno = EMFILE;
	return -1;
}

int kqueue(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	extern void kqueue_atfork(void);
	int fd;

	pthread_once(&once, kqueue_atfork);
	acquire();
	fd = open_kqueue();
	release();
	return fd;
}

void kqueue_atfork(void);
void kqueue_atfork(void)
{
	pthread_atfork(NULL, NULL, forget_in_child);
}

void kqueue_dup(int from, int to)
{
	acquire();
	struct kq *q = find(from);

	for (int k = 0; q && k < NUMBERS; k++) {
		if (q->number[k] >= 0)
			continue;
		q->number[k] = to;
		q->ep[READ_SIDE] = to; /* the first number is about to be closed */
		break;
	}
	release();
}

/* --- closing numbers --- */

static void drop_note(struct kq *q, int side, int fd)
{
	struct knote *n = &q->notes[fd][side];

	if (n->exists)
		epoll_ctl(q->ep[side], EPOLL_CTL_DEL, fd, NULL);
	n->exists = false;
}

static void close_number(struct kq *q, int fd)
{
	bool last = true;

	for (int k = 0; k < NUMBERS; k++) {
		if (q->number[k] == fd)
			q->number[k] = -1;
		last &= q->number[k] < 0;
	}
	for (int k = 0; k < NUMBERS; k++)
		if (q->number[k] >= 0)
			q->ep[READ_SIDE] = q->number[k];
	if (!last)
		return;
	close_raw(q->ep[WRITE_SIDE]);
	close_raw(q->triggers);
	munmap(q->notes, sizeof(*q->notes) * FDS);
	q->open = false;
}

/* The number is about to be closed. */
static void before_close(int fd)
{
	if (fd < 0 || fd >= FDS)
		return;
	if (!atomic_load(&noted[fd]) && !find(fd))
		return;
	acquire();
	atomic_store(&noted[fd], false);
	for (int i = 0; i < KQUEUES; i++)
		for (int side = 0; kqs[i].open && side < SIDES; side++)
			drop_note(&kqs[i], side, fd);
	struct kq *q = find(fd);

	if (q)
		close_number(q, fd);
	release();
}

EXPORT int close(int fd)
{
	before_close(fd);
	return close_raw(fd);
}

EXPORT int dup2(int from, int to)
{
	if (from != to && fcntl(from, F_GETFD) >= 0)
		before_close(to);
	return from != to ? (int)raw(SYS_dup3, from, to, 0) : fcntl(from, F_GETFD) < 0 ? -1 : to;
}

EXPORT int dup3(int from, int to, int flags)
{
	if (from != to && fcntl(from, F_GETFD) >= 0)
		before_close(to);
	return (int)raw(SYS_dup3, from, to, flags);
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
	for (unsigned fd = first; !flags && fd <= last && fd < FDS; fd++)
		before_close((int)fd);
	return (int)raw(SYS_close_range, first, last, flags);
}

EXPORT void closefrom(int low)
{
	close_range(low < 0 ? 0 : (unsigned)low, ~0u, 0);
}

/* Tests close by a raw system call what ThreadSanitizer must not see. */
EXPORT long syscall(long nr, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (!raw)
		find_raw();
	if (nr == SYS_close)
		before_close((int)a[0]);
	else if (nr == SYS_dup3 && a[0] != a[1] && fcntl((int)a[0], F_GETFD) >= 0)
		before_close((int)a[1]);
	return raw(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* --- changes --- */

static void set_triggers(struct kq *q)
{
	uint64_t one = 1;
	bool any = false;

	for (int i = 0; i < USERS; i++)
		any |= q->users[i].exists && q->users[i].triggered;
	ssize_t done =
		any ? write(q->triggers, &one, sizeof(one)) : read(q->triggers, &one, sizeof(one));

	(void)done; /* EAGAIN: it was so already */
}

static struct user_note *find_user(struct kq *q, uintptr_t ident)
{
	for (int i = 0; i < USERS; i++)
		if (q->users[i].exists && q->users[i].ident == ident)
			return &q->users[i];
	return NULL;
}

static struct user_note *add_user(struct kq *q, const struct kevent *c)
{
	for (int i = 0; i < USERS; i++) {
		struct user_note *u = &q->users[i];

		if (u->exists)
			continue;
		*u = (struct user_note){ .exists = true, .ident = c->ident, .flags = c->flags };
		return u;
	}
	return NULL;
}

static int change_user(struct kq *q, const struct kevent *c)
{
	struct user_note *u = find_user(q, c->ident);
	bool added = false;

	if (!u && !(c->flags & EV_ADD))
		return ENOENT;
	if (!u) {
		u = add_user(q, c);
		added = true;
	}
	if (!u)
		return ENOMEM;
	u->udata = c->udata;
	if (c->flags & EV_DELETE)
		u->exists = false;
	else if (c->fflags & NOTE_TRIGGER && !added)
		u->triggered = true;
	set_triggers(q);
	return 0;
}

static uint32_t events_of(const struct knote *n, int side)
{
	uint32_t e = side == READ_SIDE ? EPOLLIN | EPOLLRDHUP : EPOLLOUT;

	if (n->fflags & NOTE_LOWAT && !n->of_pipe)
		e &= ~(uint32_t)(EPOLLIN | EPOLLOUT);
	if (n->flags & EV_CLEAR)
		e |= (uint32_t)EPOLLET;
	if (n->flags & (EV_DISPATCH | EV_ONESHOT))
		e |= (uint32_t)EPOLLONESHOT;
	return e;
}

/* The answer for a file that epoll refuses. */
static int refusal(int fd)
{
	struct stat st;

	if (fstat(fd, &st) == 0 &&
	    (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode)))
		return 0;
	return ENODEV;
}

/* Register the knote with epoll.  Returns 0 or an errno; ENOENT: it was made for a former file. */
static int arm(struct kq *q, int side, int fd, bool added)
{
	struct knote *n = &q->notes[fd][side];
	struct epoll_event e = { .events = events_of(n, side),
				 .data.u64 = (uint64_t)n->generation << 32 | (uint32_t)fd };

	if (n->disabled) {
		epoll_ctl(q->ep[side], EPOLL_CTL_DEL, fd, NULL);
		return 0;
	}
	if (epoll_ctl(q->ep[side], EPOLL_CTL_MOD, fd, &e) == 0)
		return 0;
	if (errno == ENOENT && added && epoll_ctl(q->ep[side], EPOLL_CTL_ADD, fd, &e) == 0)
		return 0;
	return errno == EPERM ? refusal(fd) : errno;
}

/* ppoll, also in a test that replaces it or counts its calls. */
static int query(struct pollfd *p, int n, struct timespec *t)
{
	return (int)raw(SYS_ppoll, p, n, t, NULL, 0);
}

static bool is_pipe(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

static bool is_broken_pipe(int fd)
{
	struct timespec at_once = { 0, 0 };
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return is_pipe(fd) && query(&p, 1, &at_once) == 1 && p.revents & (POLLERR | POLLHUP);
}

static int change_note(struct kq *q, int side, const struct kevent *c)
{
	int fd = (int)c->ident, err;
	struct knote *n;

	if (fd < 0 || fcntl(fd, F_GETFD) < 0)
		return EBADF;
	if (fd >= FDS)
		return ENOMEM;
	n = &q->notes[fd][side];
	if (!n->exists && !(c->flags & EV_ADD))
		return ENOENT;
	if (c->flags & EV_DELETE) {
		drop_note(q, side, fd);
		return 0;
	}
	bool added = !n->exists, was_disabled = n->disabled && !added;

	if (added) {
		if (side == WRITE_SIDE && is_broken_pipe(fd))
			return EPIPE;
		*n = (struct knote){ .exists = true,
				     .of_pipe = is_pipe(fd),
				     .flags = c->flags,
				     .generation = n->generation + 1 };
		atomic_store(&noted[fd], true);
	}
	n->udata = c->udata;
	n->fflags = c->fflags;
	if (c->flags & EV_ENABLE)
		n->disabled = false;
	if (c->flags & EV_DISABLE)
		n->disabled = true;
	err = arm(q, side, fd, added || was_disabled);
	if (err)
		n->exists = false;
	return err;
}

static int make_change(struct kq *q, const struct kevent *c)
{
	switch (c->filter) {
	case EVFILT_READ: return change_note(q, READ_SIDE, c);
	case EVFILT_WRITE: return change_note(q, WRITE_SIDE, c);
	case EVFILT_USER: return change_user(q, c);
	default: return EINVAL;
	}
}

/* Returns the number of results in events, or -1: an error for which there is no room. */
static int make_changes(struct kq *q, const struct kevent *c, int n, struct kevent *events,
			int room)
{
	int results = 0;

	for (int i = 0; i < n; i++) {
		struct kevent now = c[i]; /* events may be the same array */
		int err = make_change(q, &now);

		if (!err && !(now.flags & EV_RECEIPT))
			continue;
		if (results == room) {
			errno = err;
			return err ? -1 : results;
		}
		events[results] = now;
		events[results].flags = EV_ERROR;
		events[results++].data = err;
	}
	return results;
}

/* --- events --- */

static int take_users(struct kq *q, struct kevent *events, int room)
{
	int n = 0;

	for (int i = 0; i < USERS && n < room; i++) {
		struct user_note *u = &q->users[i];

		if (!u->exists || !u->triggered)
			continue;
		EV_SET(&events[n], u->ident, EVFILT_USER, u->flags, 0, 0, u->udata);
		n++;
		if (u->flags & EV_ONESHOT)
			u->exists = false;
		if (u->flags & EV_CLEAR)
			u->triggered = false;
	}
	if (n)
		set_triggers(q);
	return n;
}

static bool take_note(struct kq *q, int side, const struct epoll_event *e, struct kevent *out)
{
	int fd = (int)(uint32_t)e->data.u64;
	struct knote *n = &q->notes[fd][side];
	uint32_t end = EPOLLHUP | EPOLLERR | (side == READ_SIDE ? EPOLLRDHUP : 0);
	unsigned flags = n->flags & (EV_CLEAR | EV_DISPATCH | EV_ONESHOT);

	if (!n->exists || n->disabled || n->generation != (uint32_t)(e->data.u64 >> 32))
		return false;
	if (e->events & end)
		flags |= EV_EOF;
	EV_SET(out, (uintptr_t)fd, side == READ_SIDE ? EVFILT_READ : EVFILT_WRITE,
	       (unsigned short)flags, 0, 1, n->udata);
	n->disabled = n->flags & EV_DISPATCH;
	if (n->flags & EV_ONESHOT)
		drop_note(q, side, fd);
	return true;
}

static int take_side(struct kq *q, int side, struct kevent *events, int room)
{
	struct epoll_event e[BATCH];
	int n = 0;
	int got = room > 0 ? epoll_wait(q->ep[side], e, room < BATCH ? room : BATCH, 0) : 0;

	for (int i = 0; i < got; i++)
		n += take_note(q, side, &e[i], &events[n]);
	return n;
}

/* Both sides come first in turn, so that neither starves if the room is small. */
static int take(struct kq *q, struct kevent *events, int room)
{
	int n = take_users(q, events, room), first = q->scans++ & 1;

	n += take_side(q, first, events + n, room - n);
	n += take_side(q, !first, events + n, room - n);
	return n;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Wait until there may be an event.  Returns false at the end of the time, or with errno set. */
static bool sleep_until(int fds[3], const struct timespec *timeout, int64_t end)
{
	struct pollfd p[3];
	struct timespec t = { 0, 0 };
	int64_t left = timeout ? end - now_ns() : 0;

	errno = 0;
	if (timeout && left <= 0)
		return false;
	t.tv_sec = left / 1000000000;
	t.tv_nsec = left % 1000000000;
	for (int i = 0; i < 3; i++)
		p[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
	if (query(p, 3, timeout ? &t : NULL) < 0)
		return false;
	errno = 0;
	return true;
}

static bool is_zero(const struct timespec *t)
{
	return t && t->tv_sec == 0 && t->tv_nsec == 0;
}

int kevent(int fd, const struct kevent *changes, int nchanges, struct kevent *events, int nevents,
	   const struct timespec *timeout)
{
	int64_t end = 0;
	int n, fds[3];

	if (timeout && !is_zero(timeout))
		end = now_ns() + timeout->tv_sec * INT64_C(1000000000) + timeout->tv_nsec;
	for (bool first = true;; first = false) {
		acquire();
		struct kq *q = find(fd);

		if (!q) {
			release();
			errno = EBADF;
			return -1;
		}
		n = first ? make_changes(q, changes, nchanges, events, nevents) : 0;
		if (n == 0)
			n = take(q, events, nevents);
		fds[0] = q->ep[READ_SIDE];
		fds[1] = q->ep[WRITE_SIDE];
		fds[2] = q->triggers;
		release();
		if (n || nevents == 0 || is_zero(timeout))
			return n;
		if (!sleep_until(fds, timeout, end))
			return errno ? -1 : 0;
	}
}
