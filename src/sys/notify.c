/* SPDX-License-Identifier: MIT */
/*
 * gmp_signal_notify: delivers signals as elements of channels, by a self-pipe and a distributor G.
 *
 *   kernel         on_notify_signal, on any thread  distributor, a G
 *      │             1 count[signo] + 1               1 wait: read the pipe
 *      └──────────>  2 write to the pipe ──────────>  2 take the counts; try to send each signal
 *                                                       that often to every subscribed channel
 *
 * The handler may interrupt anything, so it does nothing else.  The distributor waits for an fd, so
 * a run with subscriptions is never reported as a deadlock.  It exists while there is a
 * subscription; the pipe stays open until the end of the run.
 *
 * Invariants
 *   -         A handler counts before it writes, and the distributor reads before it takes the
 *             counts.  So no signal is lost.  Within one burst, lower signal numbers come first.
 *   -         Sending, subscribing and stopping hold one lock: after a stop nothing is sent to the
 *             channel.
 *   NOTIFY-3  `taken` marks the signals with on_notify_signal installed; `old` is the disposition
 *             from before.  It is restored, by the last stop or by the end of the run, only if
 *             on_notify_signal is still installed.
 *   NOTIFY-4  Lifetime: the pipe is closed only while no handler is inside, since its fds may be
 *             reused.  If the program has closed the pipe, the handler writes nothing (a pipe has
 *             an inode of its own, which is compared), and the distributor, which netpoll/check.c
 *             wakes, ends the process with a message.
 *   NOTIFY-5  `users` counts the subscriptions, and calls that are about to add one.  The
 *             distributor ends when it is 0.
 *   NOTIFY-6  A subscribed signal arrives although the program blocks it: sysmon unblocks it for
 *             itself (sched.admitted).
 *   NOTIFY-7  A stop sends what is pending, and what handlers have counted, before it removes the
 *             subscription: the distributor may not have run since.  A signal is lost only if an OS
 *             thread has taken it from the kernel and has not begun the handler.
 */
#include "sys/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"
#include "base/san.h"
#include "base/throw.h"
#include "chan.h"
#include "enter.h"
#include "idle.h"
#include "io/fd.h"
#include "monitor/faultsig.h"
#include "spawn.h"

enum { SIGNALS = 64 };

struct subscription {
	gmp_chan *c;
	int signo;
	struct subscription *next;
};

static struct {
	struct lock lock;
	struct subscription *first;
	uint32_t users;    /* NOTIFY-5 */
	bool distributing; /* a distributor runs */
	int fd;            /* (a) read end of the pipe + 1; 0: none */
	int write_end;     /* (c) while fd is set, as the next two */
	ino_t inode;
	pid_t owner;                 /* the process: the child of a vfork is another one */
	uint32_t inside;             /* (a) number of running handlers */
	uint32_t count[SIGNALS + 1]; /* (a) signals that have arrived and were not sent yet */
	bool taken[SIGNALS + 1];     /* NOTIFY-3 */
	struct sigaction old[SIGNALS + 1];
} sig;

/*
 * True if fd is our pipe (NOTIFY-4), or if a seccomp filter refuses fstat: then no reuse of the
 * number is noticed.  Raw system calls: ThreadSanitizer intercepts those of libc.
 */
unsanitized static bool is_pipe_sig(int fd)
{
	struct stat st;

	if (syscall(SYS_fstat, fd, &st) < 0)
		return errno != EBADF;
	return S_ISFIFO(st.st_mode) && (st.st_ino == sig.inode || !sig.inode);
}

unsanitized static void wake_distributor_sig(void)
{
	if (is_pipe_sig(sig.write_end) && syscall(SYS_write, sig.write_end, "", 1) < 0)
		return; /* the pipe is full: the distributor wakes anyway */
}

/* The signal handler. */
unsanitized static void on_notify_signal(int signo)
{
	int saved = errno;

	add_seq(&sig.inside, 1);      /* ORD(notify) */
	int fd = ld_seq(&sig.fd) - 1; /* ORD(notify) */

	if (fd >= 0 && getpid() == sig.owner) {
		add_rlx(&sig.count[signo], 1);
		wake_distributor_sig();
	}
	sub_seq(&sig.inside, 1); /* ORD(notify) */
	errno = saved;
}

/* --- dispositions; under the lock --- */

/* Update sched.admitted for signo and let sysmon apply it (NOTIFY-6). */
static void notify_disposition_changed(int signo)
{
	uint64_t bit = (uint64_t)1 << (signo - 1), admitted = ld_rlx(&sched.admitted);

	st_rlx(&sched.admitted, sig.taken[signo] ? admitted | bit : admitted & ~bit);
	if (signo == SIGPIPE)
		signal_check_sigpipe();
	st_seq(&sched.delegated, 1); /* ORD(sysmon): NOTIFY-6 */
	wake_sysmon();
}

/* Install the handler for signo.  Returns 0 or -errno. */
static int notify_install(int signo)
{
	struct sigaction sa = { .sa_handler = on_notify_signal,
				.sa_flags = SA_ONSTACK | SA_RESTART },
			 old;

	sigfillset(&sa.sa_mask);
	st_rlx(&sig.count[signo], 0);
	int err = os_sigaction(signo, &sa, &old);

	if (err)
		return err;
	sig.old[signo] = old;
	sig.taken[signo] = true;
	notify_disposition_changed(signo);
	return 0;
}

/*
 * Count signo as often as it is pending for the process, and remove it from the pending signals: it
 * was sent before the stop.  The restored disposition may end the process.
 */
static void notify_take_pending(int signo)
{
	sigset_t only, mask;

	sigemptyset(&only);
	sigaddset(&only, signo);
	pthread_sigmask(SIG_BLOCK, &only, &mask);
	while (sigtimedwait(&only, NULL, &(struct timespec){ 0 }) == signo)
		add_rlx(&sig.count[signo], 1);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

/* NOTIFY-3 */
static void notify_restore(int signo)
{
	sig.taken[signo] = false;
	if (os_handler_is(signo, on_notify_signal)) {
		notify_take_pending(signo);
		os_sigaction(signo, &sig.old[signo], NULL);
	}
}

static void notify_restore_all(void)
{
	for (int i = 1; i <= SIGNALS; i++)
		if (sig.taken[i])
			notify_restore(i);
	st_rlx(&sched.admitted, 0);
}

/* --- distributor; sending is under the lock --- */

/* Send signo `times` times to each subscribed channel; a full channel loses the rest. */
static void notify_send(int signo, uint32_t times)
{
	for (struct subscription *a = sig.first; a; a = a->next)
		for (uint32_t k = 0; a->signo == signo && k < times; k++)
			if (gmp_chan_try_send(a->c, &signo))
				break; /* full */
}

/* Step 2 of the distributor. */
static void notify_send_all(void)
{
	for (int i = 1; i <= SIGNALS; i++) {
		uint32_t n = ld_rlx(&sig.count[i]);

		if (n) {
			add_rlx(&sig.count[i], -n);
			notify_send(i, n);
		}
	}
}

/* The read has failed or returned 0: end the process unless both fds are still the pipe. */
static void check_pipe(int fd)
{
	if (!is_pipe_sig(fd) || !is_pipe_sig(sig.write_end))
		gmp__fatal("the pipe for signals, file descriptors %d and %d, is gone: the program "
			   "has closed it or reused its numbers (closefrom, close_range?); leave "
			   "the file descriptors from %d on open while gmp runs",
			   fd, sig.write_end, os_fd_raised());
}

/* Entry function of the distributor.  Returns at once if there is one already. */
static void distribute(void *arg)
{
	int fd = ld_rlx(&sig.fd) - 1;
	char bytes[64];

	(void)arg;
	lock(&sig.lock, LR_SIGNALS);
	if (!sig.distributing) {
		sig.distributing = true;
		while (sig.users) {
			notify_send_all();
			unlock(&sig.lock, LR_SIGNALS);
			if (gmp_read(fd, bytes, sizeof(bytes)) <= 0)
				check_pipe(fd);
			lock(&sig.lock, LR_SIGNALS);
		}
		sig.distributing = false;
	}
	unlock(&sig.lock, LR_SIGNALS);
}

/* --- subscribing and stopping --- */

/* Publish the pipe to the handlers. */
static void publish_pipe(int fd, int write_end)
{
	struct stat st = { 0 };

	fstat(fd, &st);
	sig.inode = st.st_ino;
	sig.write_end = write_end;
	os_fd_set_own(fd, true);
	os_fd_set_own(write_end, true);
	sig.owner = getpid();
	st_seq(&sig.fd, fd + 1); /* ORD(notify) */
}

/* Open the pipe if there is none.  Returns 0 or -errno. */
static int open_pipe(void)
{
	int p[2];

	if (pipe2(p, O_NONBLOCK | O_CLOEXEC) < 0)
		return -errno;
	int fd = fd_register(os_fd_raise(p[0]), false);

	if (fd < 0) {
		close(p[1]);
		return fd;
	}
	lock(&sig.lock, LR_SIGNALS);
	bool first = !ld_rlx(&sig.fd);

	if (first)
		publish_pipe(fd, os_fd_raise(p[1]));
	unlock(&sig.lock, LR_SIGNALS);
	if (first)
		return 0;
	close(p[1]);
	fd_close_always(fd);
	return 0;
}

static void end_use(void)
{
	lock(&sig.lock, LR_SIGNALS);
	if (--sig.users == 0 && ld_rlx(&sig.fd))
		wake_distributor_sig();
	unlock(&sig.lock, LR_SIGNALS);
}

/*
 * NOTIFY-5: make sure that pipe and distributor exist.  Two threads may start a distributor at the
 * same time; one of these returns at once.
 */
static int begin_use(void)
{
	lock(&sig.lock, LR_SIGNALS);
	sig.users++;
	bool open = ld_rlx(&sig.fd), start = !sig.distributing;

	unlock(&sig.lock, LR_SIGNALS);
	int err = open ? 0 : open_pipe();

	if (!err && start)
		err = green_start(distribute, NULL, "signals", 0);
	if (err)
		end_use();
	return err;
}

/* The link to the subscription, or to the end of the list. */
static struct subscription **notify_find(gmp_chan *c, int signo)
{
	struct subscription **a = &sig.first;

	while (*a && ((*a)->c != c || (*a)->signo != signo))
		a = &(*a)->next;
	return a;
}

/* Returns 0: added; 1: there is one already; or -errno. */
static int notify_add(struct subscription *a)
{
	int result = 1;

	lock(&sig.lock, LR_SIGNALS);
	if (!*notify_find(a->c, a->signo)) {
		result = sig.taken[a->signo] ? 0 : notify_install(a->signo);
		if (!result) {
			a->next = sig.first;
			sig.first = a;
		}
	}
	unlock(&sig.lock, LR_SIGNALS);
	return result;
}

/* False for faults, which the runtime handles, and for invalid numbers. */
static bool is_notifiable(int signo)
{
	return signo >= 1 && signo <= SIGNALS && !is_fault_signal(signo);
}

static int notify(gmp_chan *c, int signo)
{
	struct subscription *a = malloc(sizeof(*a));

	if (!a)
		return -ENOMEM;
	*a = (struct subscription){ .c = c, .signo = signo };
	int result = begin_use();

	if (result) {
		free(a);
		return result;
	}
	result = notify_add(a);
	if (result) {
		end_use();
		free(a);
	}
	return min_of(result, 0);
}

int gmp_signal_notify(gmp_chan *c, int signo)
{
	if (!c || c->size != sizeof(int) || !is_notifiable(signo))
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	int result = notify(c, signo);

	rt_leave();
	return result;
}

static bool is_last(const struct subscription *of)
{
	for (struct subscription *a = sig.first; a; a = a->next)
		if (a != of && a->signo == of->signo)
			return false;
	return true;
}

/* NOTIFY-7; under the lock.  Waits for the handlers that have begun, which take no lock. */
static void notify_finish(const struct subscription *a)
{
	if (is_last(a)) {
		notify_restore(a->signo);
		notify_disposition_changed(a->signo);
	} else if (os_handler_is(a->signo, on_notify_signal)) {
		notify_take_pending(a->signo);
	}
	while (ld_acq(&sig.inside)) /* ORD(notify): counts of handlers that have begun */
		os_yield();
	notify_send_all();
}

/* Returns 0, or -ENOENT if there is no such subscription. */
static int notify_stop(gmp_chan *c, int signo)
{
	lock(&sig.lock, LR_SIGNALS);
	struct subscription **from = notify_find(c, signo), *a = *from;

	if (a) {
		notify_finish(a);
		*from = a->next;
	}
	unlock(&sig.lock, LR_SIGNALS);
	if (!a)
		return -ENOENT;
	free(a);
	end_use();
	return 0;
}

int gmp_signal_stop(gmp_chan *c, int signo)
{
	if (!c || !is_notifiable(signo))
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	int result = notify_stop(c, signo);

	rt_leave();
	return result;
}

/* --- the end --- */

/* Close the pipe when no handler is inside (NOTIFY-4). */
static void close_pipe(void)
{
	int fd = xchg_seq(&sig.fd, 0) - 1; /* ORD(notify) */

	if (fd < 0)
		return;
	while (ld_seq(&sig.inside)) /* ORD(notify) */
		os_yield();
	os_fd_set_own(fd, false);
	os_fd_set_own(sig.write_end, false);
	close(fd);
	close(sig.write_end);
}

void notify_fini(void)
{
	notify_restore_all();
	close_pipe();
	for (struct subscription *a; (a = sig.first); free(a))
		sig.first = a->next;
	sig.users = 0;
	sig.distributing = false;
}

/* The parent may have been changing the list, so the child leaks it. */
void notify_forget(void)
{
	sig.lock = (struct lock){ 0 };
	sig.first = NULL;
	st_seq(&sig.inside, 0); /* ORD(notify): the parent's */
	notify_fini();
}
