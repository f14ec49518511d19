/* SPDX-License-Identifier: MIT */
/*
 * Poller for BSD kernels: kqueue, with a read knote and a write knote per fd, and a user event that
 * ends a wait.
 *
 * FreeBSD is the reference.  docs/ports.md lists what other kernels do differently.
 *
 *   call       changes (each with EV_RECEIPT: kevent answers per change and takes no event)
 *   add        EVFILT_READ and EVFILT_WRITE: EV_ADD, EV_CLEAR           key in udata
 *   once       the same with EV_DISPATCH: one report, then disabled, still registered
 *   rekey      EV_DELETE of both, then as add: reports what is ready
 *   del        EV_DELETE of both
 *   wake       EVFILT_USER: NOTE_TRIGGER; the report resets it (EV_CLEAR)
 *   verify     EVFILT_USER without NOTE_TRIGGER: ENOENT if the number has another kqueue
 *
 * Invariants
 *   -     Edges: a knote with EV_CLEAR is reported once per activation by the kernel.  Each arrival
 *         of data activates it, also beside data that is still buffered.
 *   KQ-2  A knote belongs to the fd number, not to the open file.  close(2) and dup2(2) on the
 *         number remove it, and a dup has no knote.  So no registration outlives its number, and
 *         del is needed only if the number stays open.
 *   KQ-3  EV_ADD on a registered fd is no error: it would replace the key.  So add first changes
 *         a knote with no flags and with the key that keys[] holds for fd.  ENOENT from both means
 *         that the fd is not registered.  If it is, nothing changes, except that a ready fd is
 *         reported again, and that a low-water mark of once is lost: both are spurious reports.
 *         keys[] holds 0, or the key of the number's last registration, which may be gone.
 *   KQ-4  EV_ADD leaves the kind of a knote (EV_CLEAR, EV_DISPATCH) as it was made.  So rekey and
 *         once delete both knotes before they add them.  EV_ADD evaluates the present state, so no
 *         event is lost in between.
 *   KQ-5  kqueue accepts regular files and directories, and reports them as ready, although a read
 *         blocks.  The poller refuses them with EPERM.
 *   KQ-6  An fd may have one direction only.  The other filter is refused, or accepted and never
 *         reported, not even for a hang-up (a FIFO).  Then that direction is never reported.  EPIPE
 *         is the exception: the other end of the pipe is closed.  It is reported at once, by a
 *         one-shot user event (report_now), since no knote will do it.
 *   KQ-7  EV_EOF is POLL_HUNG.  Data may be left, and the reports of both filters may be apart.  No
 *         filter reports urgent data (reports_urgent is false).  An fd that is closed in one
 *         direction has EV_EOF for good, and poll(2) may say that it is not ready.  gmp_poll would
 *         then never sleep if each add reported EV_EOF again.  So add changes the knote that has
 *         not reported it (KQ-3); if both have, poll(2) says POLLHUP.
 *   KQ-8  A kqueue is not inherited by fork.  In the child its number may belong to another file,
 *         so close compares the process before it closes the number.
 *   KQ-9  The program may have closed the kqueue, and its number may be in use again.  The fd is
 *         moved above the numbers that programs use (os_fd_raise).  kevent then fails as a whole
 *         with EBADF, or a change of the user event gets ENOENT: both are fatal.  Another kqueue
 *         has no user event with the number WAKE_IDENT.
 *
 * Rejected
 *   A pipe for wakeups: two more fds, and a read per wakeup.  Kernels without EVFILT_USER need it.
 *   EV_ONESHOT for once: the report removes the knote, and the fd would no longer be registered.
 */
#include "poller.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/event.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/errtext.h"
#include "base/os.h"
#include "base/throw.h"

/* FDS: as many numbers as netpoll has records for.  MAX_EVENTS: of one kevent, 2 KiB of the
 * scheduler's stack.
 * LONGEST: of one wait, which may return early, so a caller sees no limit. */
enum {
	WAKE_IDENT = 0x676d7077, /* KQ-9 */
	FDS = 1 << 24,
	CHUNK = 1024, /* keys are made for so many numbers at a time */
	MAX_EVENTS = 32,
	LONGEST = 1 << 20, /* s */
};

/* (a) ended: the key of the read and of the write knote that has last reported EV_EOF; KQ-7.  The
 * waiting thread writes it without the lock of the fd's record, and a late one writes a former key:
 * it equals no present one. */
struct key {
	uint64_t key; /* KQ-3 */
	uint64_t ended[2];
};

static struct {
	int fd;
	pid_t owner;       /* KQ-8: the process that made it */
	struct key **keys; /* (a) FDS / CHUNK chunks, and the keys in them */
	uint32_t waking;   /* (a) futex; 1: a wake has come that no sleeper has seen.  Then the user
			   * event is triggered, or about to be, if a thread sleeps in the kernel */
	bool resting;      /* (a) the waiting thread sleeps on `waking` */
	bool sleeping;     /* (a) a thread is in a wait with ns != 0, or about to be */
} kq = { .fd = -1 };

/* KQ-9: the fd was closed by the program. */
__attribute__((noreturn)) static noinline void kq_lost(int err)
{
	gmp__fatal("the kqueue of the poller, descriptor %d, is gone (%s): the program has closed "
		   "it or reused its number (closefrom, close_range?); leave the descriptors from "
		   "%d on open while gmp runs",
		   kq.fd, errtext(err), os_fd_raised());
}

/* --- changes --- */

static struct kevent change(uintptr_t ident, int filter, unsigned flags, unsigned fflags,
			    uint64_t key)
{
	struct kevent c;

	EV_SET(&c, ident, (short)filter, (unsigned short)(flags | EV_RECEIPT), fflags, 0,
	       (void *)(uintptr_t)key);
	return c;
}

/* Make n changes.  Afterwards the data of each is 0 or its errno. */
static void apply(struct kevent *c, int n)
{
	static const struct timespec at_once;
	int got;

	do
		got = kevent(kq.fd, c, n, c, n, &at_once);
	while (got < 0 && errno == EINTR);
	if (unlikely(got != n))
		kq_lost(got < 0 ? errno : EINVAL);
}

static int apply_one(struct kevent c)
{
	apply(&c, 1);
	return (int)c.data;
}

static struct kevent wake_change(unsigned flags, unsigned fflags)
{
	return change(WAKE_IDENT, EVFILT_USER, flags, fflags, 0);
}

static void kq_verify(void)
{
	int err = kq.fd < 0 ? 0 : apply_one(wake_change(0, NOTE_FFNOP));

	if (unlikely(err))
		kq_lost(err);
}

static void wake_trigger(void)
{
	int err = kq.fd < 0 ? 0 : apply_one(wake_change(0, NOTE_TRIGGER));

	if (unlikely(err))
		kq_lost(err);
}

/* --- keys --- */

/* The place of fd's key; NULL: it has none yet, or it is no number. */
static struct key *find_key(int fd)
{
	if (unlikely(fd < 0 || fd >= FDS))
		return NULL;
	struct key *chunk = ld_acq(&kq.keys[fd / CHUNK]); /* ORD(kq.keys) */

	return chunk ? &chunk[fd % CHUNK] : NULL;
}

/* Also makes the chunk.  Two threads may do so at once, for two numbers of the same chunk. */
static struct key *make_key(int fd)
{
	struct key *at = find_key(fd), *chunk, *none = NULL;

	if (likely(at != NULL) || fd < 0 || fd >= FDS)
		return at;
	chunk = os_reserve(CHUNK * sizeof(*chunk));
	if (chunk && !cas_seq(&kq.keys[fd / CHUNK], &none, chunk)) /* ORD(kq.keys): zeroed first */
		os_release(chunk, CHUNK * sizeof(*chunk));
	return find_key(fd);
}

static void free_keys(void)
{
	for (int i = 0; kq.keys && i < FDS / CHUNK; i++)
		os_release(kq.keys[i], CHUNK * sizeof(**kq.keys));
	os_release(kq.keys, FDS / CHUNK * sizeof(*kq.keys));
	kq.keys = NULL;
}

/* --- open and close --- */

/* KQ-8 */
static void kq_close(void)
{
	os_fd_set_own(kq.fd, false);
	if (kq.fd >= 0 && kq.owner == getpid())
		close(kq.fd);
	kq.fd = -1;
	free_keys();
}

static int kq_open(void)
{
	int err;

	kq.waking = 0;
	kq.resting = kq.sleeping = false;
	kq.owner = getpid();
	kq.keys = os_reserve(FDS / CHUNK * sizeof(*kq.keys));
	if (!kq.keys)
		return -ENOMEM;
	kq.fd = kqueue();
	if (kq.fd < 0) {
		err = -errno;
		kq_close();
		return err;
	}
	fcntl(kq.fd, F_SETFD, FD_CLOEXEC); /* a program after exec without fork has it otherwise */
	kq.fd = os_fd_raise(kq.fd);
	os_fd_set_own(kq.fd, true);
	err = -apply_one(wake_change(EV_ADD | EV_CLEAR, 0));
	if (err)
		kq_close();
	return err;
}

/* --- registration --- */

/* KQ-5.  Returns 0 if fd may be polled. */
static int refuse_files(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode) ? -EPERM : 0;
}

/* KQ-7: has only the read knote of the registration reported EV_EOF? */
static bool is_read_ended(struct key *at, uint64_t key)
{
	return ld_rlx(&at->ended[0]) == key && ld_rlx(&at->ended[1]) != key;
}

/* KQ-3: returns -EEXIST if fd is registered; 0 if it is not. */
static int probe(int fd)
{
	struct key *at = find_key(fd);
	uint64_t key = at ? ld_rlx(&at->key) : 0;
	bool write_first = key && is_read_ended(at, key);
	int err = ENOENT;

	for (int i = 0; key && err == ENOENT && i < 2; i++) { /* KQ-6: it may have one knote only */
		int filter = write_first == (i == 0) ? EVFILT_WRITE : EVFILT_READ;

		err = apply_one(change((uintptr_t)fd, filter, 0, 0, key));
	}
	if (key && err == ENOENT)
		kq_verify();
	return err == 0 ? -EEXIST : err == ENOENT ? 0 : -err;
}

/* KQ-6.  If the kernel fails to add it, the next call that waits for the pipe finds out itself. */
static void report_now(int fd, uint64_t key)
{
	uintptr_t ident = (uintptr_t)fd; /* below FDS, so not WAKE_IDENT */
	struct kevent c[] = { change(ident, EVFILT_USER, EV_ADD | EV_ONESHOT, 0, key),
			      change(ident, EVFILT_USER, 0, NOTE_TRIGGER, key) };

	apply(c, 2);
}

/* Does the file have no such direction, or no events at all? */
static bool is_refusal(int64_t err)
{
	return err == EINVAL || err == EPIPE || err == ENODEV || err == EOPNOTSUPP || err == ENXIO;
}

static int kq_del(int fd)
{
	struct kevent c[] = { change((uintptr_t)fd, EVFILT_READ, EV_DELETE, 0, 0),
			      change((uintptr_t)fd, EVFILT_WRITE, EV_DELETE, 0, 0) };
	struct key *at = find_key(fd);

	apply(c, 2);
	if (at)
		st_rlx(&at->key, (uint64_t)0);
	if (c[0].data == 0 || c[1].data == 0)
		return 0;
	kq_verify();
	return c[0].data == EBADF ? -EBADF : -ENOENT;
}

/* Add both knotes of an fd that has none. */
static int attach(int fd, uint64_t key, struct kevent *c)
{
	struct key *at = make_key(fd);

	if (!at)
		return fd < 0 || fd >= FDS ? -EBADF : -ENOMEM;
	apply(c, 2);
	int64_t r = c[0].data, w = c[1].data;

	if ((r && !is_refusal(r)) || (w && !is_refusal(w))) {
		kq_del(fd);
		return -(int)(r && !is_refusal(r) ? r : w);
	}
	if (r && w)
		return -EPERM;
	st_rlx(&at->key, key);
	if (unlikely(r == EPIPE || w == EPIPE))
		report_now(fd, key);
	return 0;
}

static int attach_edges(int fd, uint64_t key)
{
	struct kevent c[] = {
		change((uintptr_t)fd, EVFILT_READ, EV_ADD | EV_CLEAR, 0, key),
		change((uintptr_t)fd, EVFILT_WRITE, EV_ADD | EV_CLEAR, 0, key),
	};

	return attach(fd, key, c);
}

static int kq_add(int fd, uint64_t key)
{
	int err = refuse_files(fd);

	if (!err)
		err = probe(fd);
	return err ? err : attach_edges(fd, key);
}

/* KQ-4 */
static int kq_rekey(int fd, uint64_t key)
{
	int err = kq_del(fd);

	return err ? err : attach_edges(fd, key);
}

/* NOTE_LOWAT has no effect on pipes. */
static bool is_pipe(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

/* A change of the knote of a direction. asked: it is enabled. only_end: it is enabled, and its
 * low-water mark lets only EV_EOF pass. */
static struct kevent once_change(int fd, int filter, uint64_t key, bool asked, bool only_end)
{
	unsigned enable = asked || only_end ? EV_ENABLE : EV_DISABLE;
	struct kevent c = change((uintptr_t)fd, filter, EV_ADD | EV_DISPATCH | enable, 0, key);

	if (only_end) {
		c.fflags = NOTE_LOWAT;
		c.data = INT32_MAX;
	}
	return c;
}

/*
 * The knote of a direction that is not asked for is disabled.  poll(2) reports a hang-up that was
 * not asked for, so at least one knote is enabled, for EV_EOF only: that for writing, since the
 * other reports a peer that has only finished writing, too.  For a pipe, whose knotes ignore the
 * mark, it is that for reading: an end for writing has no data, and both ends report EV_EOF.
 */
static int attach_once(int fd, uint64_t key, short events)
{
	bool read = events & (POLLIN | POLLRDNORM | POLLRDBAND);
	bool write = events & (POLLOUT | POLLWRNORM | POLLWRBAND);
	bool hung = !read && !write, pipe = hung && is_pipe(fd);
	bool read_end = !read && (events & POLLRDHUP || pipe);
	struct kevent c[] = {
		once_change(fd, EVFILT_READ, key, read, read_end),
		once_change(fd, EVFILT_WRITE, key, write, hung && !pipe),
	};

	return attach(fd, key, c);
}

/* KQ-4: knotes of another kind; add: the fd has none. */
static int kq_once(int fd, uint64_t key, short events, bool add)
{
	int err = add ? refuse_files(fd) : kq_del(fd);

	if (!err && add)
		err = probe(fd);
	return err ? err : attach_once(fd, key, events);
}

/* --- waiting --- */

static int kq_events(struct kevent *e, int max, int64_t ns)
{
	struct timespec t = { .tv_sec = min_of(ns / S, (int64_t)LONGEST), .tv_nsec = ns % S };
	int n = kevent(kq.fd, NULL, 0, e, max, ns == NEVER ? NULL : &t);

	if (unlikely(n < 0) && errno != EINTR)
		kq_lost(errno);
	return n;
}

static unsigned events_of(const struct kevent *e)
{
	unsigned out = e->filter == EVFILT_READ ? POLL_READ : POLL_WRITE;

	if (unlikely(e->filter == EVFILT_USER)) /* report_now */
		return POLL_READ | POLL_WRITE | POLL_HUNG;
	return e->flags & EV_EOF ? out | POLL_HUNG : out;
}

static bool is_wake(const struct kevent *e)
{
	return e->filter == EVFILT_USER && e->ident == WAKE_IDENT;
}

/* KQ-7 */
static void note_end(const struct kevent *e)
{
	struct key *at = e->filter == EVFILT_USER ? NULL : find_key((int)e->ident);

	if (at)
		st_rlx(&at->ended[e->filter == EVFILT_WRITE], (uint64_t)(uintptr_t)e->udata);
}

/* The two reports of one fd often follow each other: they become one event. */
static int append(struct poll_event *events, int n, const struct kevent *e)
{
	uint64_t key = (uintptr_t)e->udata;

	if (unlikely(e->flags & EV_EOF))
		note_end(e);
	if (n > 0 && events[n - 1].key == key)
		events[n - 1].events |= events_of(e);
	else
		events[n++] = (struct poll_event){ key, events_of(e) };
	return n;
}

/*
 * A wait with ns == 0 may take the user event that a sleeping thread needs: it triggers it again.
 * If no thread sleeps, it leaves the wake in the word, for the next sleeper: a trigger would cost a
 * system call at each of these waits until then.
 *
 *   sleeper (ns != 0)                         wait with ns == 0
 *    1 sleeping = true                         1 the user event is reported, and reset
 *    2 if waking: do not sleep                 2 if sleeping: trigger it
 *
 * If the sleeper has read waking == 0, the wake, its trigger and step 2 of the other come later.
 */
static int kq_wait(struct poll_event *events, int max, int64_t ns)
{
	bool sleeps = ns != 0, woken = false;
	struct kevent e[MAX_EVENTS];
	int n = 0, got;

	if (sleeps) {
		st_seq(&kq.sleeping, true); /* ORD(poller.waking): before the word is read */
		woken = ld_seq(&kq.waking); /* ORD(poller.waking) */
	}
	if (woken)
		ns = 0;
	do {
		int room = min_of(max - n, (int)MAX_EVENTS);

		got = kq_events(e, room, ns);
		ns = 0; /* a full batch: there may be more */
		if (sleeps)
			st_seq(&kq.sleeping, false); /* ORD(poller.waking) */
		for (int i = 0; i < got; i++) {
			if (!is_wake(&e[i]))
				n = append(events, n, &e[i]);
			else if (sleeps)
				woken = true;
			else if (ld_seq(&kq.sleeping)) /* ORD(poller.waking) */
				wake_trigger();
		}
	} while (got == MAX_EVENTS && n < max);
	/* The user event is reset first, the word cleared second.  A wake between the two triggers
	 * nothing, but it comes before this wait returns, and the exchange makes its caller's
	 * writes visible to ours. */
	if (woken)
		(void)xchg_seq(&kq.waking, 0); /* ORD(poller.waking) */
	return n;
}

/*
 * Race with kq_wake: the word is cleared last.  A wake before that has read `resting`, or has set
 * the word before the futex reads it; a later one triggers the user event.  A waker that has read
 * `resting` too early triggers it too: a spurious wakeup of the next wait.
 */
static void kq_rest(int64_t deadline)
{
	st_seq(&kq.resting, true); /* ORD(poller.waking): before the futex reads the word */
	os_futex_wait(&kq.waking, 0, deadline);
	st_seq(&kq.resting, false);    /* ORD(poller.waking) */
	(void)xchg_seq(&kq.waking, 0); /* ORD(poller.waking) */
}

static void kq_wake(void)
{
	if (xchg_seq(&kq.waking, 1)) /* ORD(poller.waking): one call serves all wakers */
		return;
	if (ld_seq(&kq.resting)) { /* ORD(poller.waking) */
		os_futex_wake(&kq.waking, 1);
		return;
	}
	wake_trigger();
}

const struct poller gmp__poller = {
	.open = kq_open,
	.close = kq_close,
	.add = kq_add,
	.rekey = kq_rekey,
	.once = kq_once,
	.del = kq_del,
	.wait = kq_wait,
	.rest = kq_rest,
	.wake = kq_wake,
	.verify = kq_verify,
	.reports_urgent = false,
};
