/* SPDX-License-Identifier: MIT */
/*
 * How does a signal become an element of a channel?
 *
 *   the kernel     on_signal, on any thread         the distributor, a green thread
 *      │             1 count[signo] + 1               1 wait: read the pipe
 *      └──────────>  2 write to the pipe ──────────>  2 take the counts, and try to send each signal so
 *                                                       often to every channel that asks for it
 *
 * The handler may interrupt anything, so it does nothing else.  The distributor waits for a descriptor:
 * therefore a run in which signals are asked for is never taken for deadlocked.  It exists while
 * a channel asks; the pipe stays until the end of the run.
 *
 * Invariants
 *  I1 A handler counts before it writes, and the distributor reads before it takes the counts: no signal
 *     is left over.  Of one burst those with lower numbers come first.
 *  I2 Sending, asking and stopping are under one lock: after a stop nothing is sent to the channel.
 *  I3 `taken` says whose disposition is ours, and `old` what it was.  It is put back only if ours is
 *     still in force: by the last stop, or by the end of the run.
 *  I4 The pipe is closed only when no handler is inside: its numbers may be reused next.  If the program has closed
 *     it, the handler writes nothing (a pipe has an inode of its own, which is compared), and the distributor,
 *     which netpoll/check.c wakes, ends the process with a message.
 *  I5 `users` counts the askings, and those about to: the distributor ends when there are none.
 *  I6 A signal that is asked for arrives although the program blocks it: sysmon unblocks it for itself
 *     (sched.admitted, read by its errand).
 */
#include "sys/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os.h"
#include "base/san.h"
#include "base/throw.h"
#include "chan.h"
#include "faultsig.h"
#include "idle.h"
#include "io/fd.h"

enum { SIGNALS = 64 };

struct asking {
	gmp_chan *c;
	int signo;
	struct asking *next;
};

static struct {
	struct lock lock;
	struct asking *first;
	uint32_t users;
	bool distributing;
	int fd;        /* (a) end to read from + 1; 0: none */
	int write_end; /* (c) while fd is set, as the next */
	ino_t inode;
	pid_t owner;                 /* (c) while fd is set: the child of a vfork is another */
	uint32_t inside;             /* (a) handlers under way */
	uint32_t count[SIGNALS + 1]; /* (a) signals that have come, and not been sent on */
	bool taken[SIGNALS + 1];
	struct sigaction old[SIGNALS + 1];
} sig;

/* libc's write is a place where ThreadSanitizer listens. */
unsanitized static bool is_pipe_sig(int fd)
{
	struct stat st;

	return syscall(SYS_fstat, fd, &st) == 0 && S_ISFIFO(st.st_mode) && st.st_ino == sig.inode;
}

unsanitized static void wake_distributor_sig(void)
{
	if (is_pipe_sig(sig.write_end) && syscall(SYS_write, sig.write_end, "", 1) < 0)
		return; /* full: then it wakes anyway */
}

unsanitized static void on_signal(int signo)
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

static void dispositions_changed(int signo)
{
	uint64_t bit = (uint64_t)1 << (signo - 1), admitted = ld_rlx(&sched.admitted);

	st_rlx(&sched.admitted, sig.taken[signo] ? admitted | bit : admitted & ~bit);
	if (signo == SIGPIPE)
		signal_check_sigpipe();
	st_seq(&sched.errand, 1); /* ORD(sysmon): I6 */
	wake_sysmon();
}

static int take(int signo)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK | SA_RESTART }, old;

	sigfillset(&sa.sa_mask);
	st_rlx(&sig.count[signo], 0);
	int err = os_sigaction(signo, &sa, &old);

	if (err)
		return err;
	sig.old[signo] = old;
	sig.taken[signo] = true;
	dispositions_changed(signo);
	return 0;
}

static bool is_ours(const struct sigaction *sa)
{
	return !(sa->sa_flags & SA_SIGINFO) && sa->sa_handler == on_signal;
}

static void put_back(int signo)
{
	struct sigaction now;

	sig.taken[signo] = false;
	if (os_sigaction(signo, NULL, &now) == 0 && is_ours(&now))
		os_sigaction(signo, &sig.old[signo], NULL);
}

static void put_all_back(void)
{
	for (int i = 1; i <= SIGNALS; i++)
		if (sig.taken[i])
			put_back(i);
	st_rlx(&sched.admitted, 0);
}

/* --- the distributor --- */

static void send_on(int signo, uint32_t times)
{
	for (struct asking *a = sig.first; a; a = a->next)
		for (uint32_t k = 0; a->signo == signo && k < times; k++)
			if (gmp_chan_try_send(a->c, &signo))
				break; /* full: the others are dropped too */
}

static void send_all_on(void)
{
	for (int i = 1; i <= SIGNALS; i++) {
		uint32_t n = ld_rlx(&sig.count[i]);

		if (n) {
			add_rlx(&sig.count[i], -n);
			send_on(i, n);
		}
	}
}

/* The read has failed, or the end of the file has come: both ends are ours. */
static void check_pipe(int fd)
{
	if (!is_pipe_sig(fd) || !is_pipe_sig(sig.write_end))
		gmp__fatal("the pipe for signals, descriptors %d and %d, is gone: the program has "
			   "closed it or "
			   "reused its numbers (closefrom, close_range?); leave the descriptors "
			   "from %d on "
			   "open while gmp runs",
			   fd, sig.write_end, os_fd_raised());
}

static void distribute(void *arg)
{
	int fd = ld_rlx(&sig.fd) - 1;
	char bytes[64];

	(void)arg;
	lock(&sig.lock, LR_SIGNALS);
	if (!sig.distributing) {
		sig.distributing = true;
		while (sig.users) {
			send_all_on();
			unlock(&sig.lock, LR_SIGNALS);
			if (gmp_read(fd, bytes, sizeof(bytes)) <= 0)
				check_pipe(fd);
			lock(&sig.lock, LR_SIGNALS);
		}
		sig.distributing = false;
	}
	unlock(&sig.lock, LR_SIGNALS);
}

static int start_distributor(void)
{
	gmp_attr attr = GMP_ATTR_INIT;
	gmp_g *g;

	attr.name = "signals";
	int err = gmp_spawn(&g, distribute, NULL, &attr);

	return err ? err : gmp_detach(g);
}

/* --- asking and stopping --- */

static void begin_pipe(int fd, int write_end)
{
	struct stat st = { 0 };

	fstat(fd, &st);
	sig.inode = st.st_ino;
	sig.write_end = write_end;
	sig.owner = getpid();
	st_seq(&sig.fd, fd + 1); /* ORD(notify) */
}

static int open_fd(void)
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
		begin_pipe(fd, os_fd_raise(p[1]));
	unlock(&sig.lock, LR_SIGNALS);
	if (first)
		return 0;
	close(p[1]);
	if (gmp_close(fd) == -ESRCH) /* the runtime stops: its record goes with it */
		close(fd);
	return 0;
}

static void end_use(void)
{
	lock(&sig.lock, LR_SIGNALS);
	if (--sig.users == 0 && ld_rlx(&sig.fd))
		wake_distributor_sig();
	unlock(&sig.lock, LR_SIGNALS);
}

/* I5.  Two may start a distributor at a time: one of these ends at once. */
static int begin_use(void)
{
	lock(&sig.lock, LR_SIGNALS);
	sig.users++;
	bool open = ld_rlx(&sig.fd), start = !sig.distributing;

	unlock(&sig.lock, LR_SIGNALS);
	int err = open ? 0 : open_fd();

	if (!err && start)
		err = start_distributor();
	if (err)
		end_use();
	return err;
}

static struct asking **find(gmp_chan *c, int signo)
{
	struct asking **a = &sig.first;

	while (*a && ((*a)->c != c || (*a)->signo != signo))
		a = &(*a)->next;
	return a;
}

/* 0: entered; 1: it was already; -errno. */
static int enter(struct asking *a)
{
	int result = 1;

	lock(&sig.lock, LR_SIGNALS);
	if (!*find(a->c, a->signo)) {
		result = sig.taken[a->signo] ? 0 : take(a->signo);
		if (!result) {
			a->next = sig.first;
			sig.first = a;
		}
	}
	unlock(&sig.lock, LR_SIGNALS);
	return result;
}

static bool allowed(int signo)
{
	switch (signo) {
	case SIGSEGV:
	case SIGBUS:
	case SIGFPE:
	case SIGILL:
	case SIGTRAP:
	case SIGSYS: return false;
	default: return signo >= 1 && signo <= SIGNALS;
	}
}

static int notify(gmp_chan *c, int signo)
{
	struct asking *a = malloc(sizeof(*a));

	if (!a)
		return -ENOMEM;
	*a = (struct asking){ .c = c, .signo = signo };
	int result = begin_use();

	if (result) {
		free(a);
		return result;
	}
	result = enter(a);
	if (result) {
		end_use();
		free(a);
	}
	return min_of(result, 0);
}

int gmp_signal_notify(gmp_chan *c, int signo)
{
	if (!c || c->size != sizeof(int) || !allowed(signo))
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	int result = notify(c, signo);

	rt_leave();
	return result;
}

static bool anybody_asks(int signo)
{
	for (struct asking *a = sig.first; a; a = a->next)
		if (a->signo == signo)
			return true;
	return false;
}

static int stop(gmp_chan *c, int signo)
{
	lock(&sig.lock, LR_SIGNALS);
	struct asking **from = find(c, signo), *a = *from;

	if (a) {
		*from = a->next;
		if (!anybody_asks(signo)) {
			put_back(signo);
			dispositions_changed(signo);
		}
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
	if (!c || !allowed(signo))
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	int result = stop(c, signo);

	rt_leave();
	return result;
}

/* --- the end --- */

static void close_fd(void)
{
	int fd = xchg_seq(&sig.fd, 0) - 1; /* ORD(notify) */

	if (fd < 0)
		return;
	while (ld_seq(&sig.inside)) /* ORD(notify) */
		os_yield();
	close(fd);
	close(sig.write_end);
}

void signals_fini(void)
{
	struct asking *a;

	put_all_back();
	close_fd();
	while ((a = sig.first)) {
		sig.first = a->next;
		free(a);
	}
	sig.users = 0;
	sig.distributing = false;
}

/* The list may be in the middle of a change, and stays behind. */
void signals_forget(void)
{
	sig.lock = (struct lock){ 0 };
	put_all_back();
	st_seq(&sig.inside, 0); /* ORD(notify): the parent's */
	close_fd();
	sig.first = NULL;
	sig.users = 0;
	sig.distributing = false;
}
