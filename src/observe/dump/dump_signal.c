/* SPDX-License-Identifier: MIT */
/*
 * Dumps on a signal: the handler notifies sysmon, which starts an OS thread that dumps.
 *
 *   handler (dump_on_signal)          sysmon                             OS thread for this dump
 *    1 delegated = 1                   3 called = 0; delegated?           5 gmp_dump(2)
 *    2 called = 1, wake sysmon         4 delegated = 0, start the thread
 *
 * The handler may interrupt any code, so it does nothing else. sysmon runs even if no green thread
 * does. It does not dump itself, since a dump waits if stderr has no room, and sysmon must not
 * wait. A signal during a dump causes one more dump afterwards.
 *
 * The handler runs on any OS thread. If the first OS thread of the run had the signal blocked, all
 * Ms block it too. So sysmon unblocks it for itself, as it does for signals that go to channels
 * (sys/notify.c).
 *
 * Invariants
 *   DUMPSIG-1  The handler sets delegated before sysmon_called, and reads sysmon_asleep after
 *              that. sysmon clears sysmon_called before it reads delegated, and pauses while
 *              sysmon_called is 0; before a longer sleep it sets sysmon_asleep, then reads
 *              delegated.  So no signal is lost, and none waits for the end of a pause.
 *              ORD(sysmon)
 *   -          The old disposition is restored if gmp's handler is still installed: by
 *              dump_signal_set, at the end of the run, and in the child of a fork.
 */
#include "observe/dump/dump_signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/errtext.h"
#include "base/os.h"
#include "base/san.h"
#include "base/throw.h"
#include "enter.h"
#include "monitor/faultsig.h"
#include "observe/dump/dump.h"
#include "types.h"

enum { SIGNALS = 64, DUMPER_STACK = 256 * 1024 };

static struct {
	struct lock lock;
	int signo; /* (a) written under the lock; 0: none */
	pid_t pid; /* (c) while signo is set */
	struct sigaction old;
	uint32_t asked; /* (a) a signal arrived, and no dump has begun since */
	/* of sysmon only */
	uint64_t admitted; /* signals that sysmon unblocks, even if the program blocks them */
	bool dumping;      /* dumper was started and not joined yet */
	pthread_t dumper;
	uint32_t done; /* (a) dumper is about to end; a join does not wait */
} on;

void (*gmp__posix_delegated)(void);

unsanitized void delegate_sig(void)
{
	st_seq(&sched.delegated, 1);     /* ORD(sysmon): DUMPSIG-1 */
	st_seq(&sched.sysmon_called, 1); /* ORD(sysmon) */
	os_futex_wake(&sched.sysmon_called, 1);
	if (ld_seq(&sched.sysmon_asleep)) {      /* ORD(sysmon) */
		st_seq(&sched.sysmon_asleep, 0); /* ORD(sysmon) */
		os_futex_wake(&sched.sysmon_asleep, 1);
	}
}

unsanitized static void dump_on_signal(int signo)
{
	int saved = errno;

	(void)signo;
	if (getpid() == on.pid) {
		st_rlx(&on.asked, 1);
		delegate_sig();
	}
	errno = saved;
}

static void restore_locked(void)
{
	int signo = on.signo;

	st_rlx(&on.signo, 0);
	if (signo && os_handler_is(signo, dump_on_signal))
		os_sigaction(signo, &on.old, NULL);
}

static int dump_signal_set_locked(int signo)
{
	struct sigaction sa = { .sa_handler = dump_on_signal, .sa_flags = SA_ONSTACK | SA_RESTART },
			 old;

	if (signo == on.signo)
		return 0;
	sigfillset(&sa.sa_mask);
	int err = signo ? os_sigaction(signo, NULL, &old) : 0;

	if (err)
		return err;
	restore_locked();
	if (!signo)
		return 0;
	on.pid = getpid();
	on.old = old;
	err = os_sigaction(signo, &sa, NULL);
	if (!err)
		st_rlx(&on.signo, signo);
	return err;
}

int dump_signal_set(int signo)
{
	if (signo < 0 || signo > SIGNALS || signo == SIGSEGV || signo == SIGBUS ||
	    signo == SIGKILL || signo == SIGSTOP)
		return -EINVAL;
	lock(&on.lock, LR_DUMP);
	int err = dump_signal_set_locked(signo);

	unlock(&on.lock, LR_DUMP);
	if (!err)
		delegate_sig();
	return err;
}

int gmp_dump_on(int signo)
{
	if (!rt_enter())
		return -ESRCH;
	int err = dump_signal_set(signo);

	rt_leave();
	return err;
}

/* --- sysmon's side --- */

static void *dump_main(void *arg)
{
	(void)arg;
	os_mask(~(uint64_t)0, 0); /* handlers of the program must not run on this OS thread */
	dump_at_signal();
	st_rlx(&on.done, 1); /* relaxed: pthread_join orders all other data */
	return NULL;
}

/* Under libgmprt_posix the other signals stay blocked: a handler must not run here if all threads
 * of the program block its signal. */
static void sysmon_set_mask(void)
{
	uint64_t admitted = ld_rlx(&sched.admitted);
	int signo = ld_rlx(&on.signo);
	sigset_t mask;

	if (signo)
		admitted |= (uint64_t)1 << (signo - 1);
	if (admitted == on.admitted)
		return;
	if (os_threads_block_signals)
		sigfillset(&mask);
	else
		signal_program_mask(&mask);
	for (int i = 1; i <= SIGNALS; i++)
		if (admitted & (uint64_t)1 << (i - 1))
			sigdelset(&mask, i);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	on.admitted = admitted;
}

static void start_dump(void)
{
	struct line l = { .n = 0 };

	st_rlx(&on.asked, 0);
	st_rlx(&on.done, 0);
	int err = os_thread_start(&on.dumper, dump_main, NULL, DUMPER_STACK, NULL);

	on.dumping = err == 0;
	if (on.dumping)
		return;
	line_add_sig(&l,
		     "gmp: no dump at signal %u: no OS thread can be started (%s, errno %u); raise "
		     "RLIMIT_NPROC or the cgroup's pids.max\n",
		     (unsigned)ld_rlx(&on.signo), errtext(-err), (unsigned)-err);
	line_write_sig(&l, STDERR_FILENO);
}

void dump_signal_delegated(void)
{
	bool busy = on.dumping && !ld_rlx(&on.done);

	st_seq(&sched.delegated, busy); /* ORD(sysmon) */
	sysmon_set_mask();
	if (gmp__posix_delegated)
		gmp__posix_delegated();
	if (busy)
		return; /* delegated stays set, so sysmon calls again */
	if (on.dumping)
		pthread_join(on.dumper, NULL);
	on.dumping = false;
	if (ld_rlx(&on.asked))
		start_dump();
}

void dump_signal_fini(void)
{
	if (on.dumping)
		pthread_join(on.dumper, NULL);
	on.dumping = false;
	on.admitted = 0; /* the next sysmon is another OS thread */
	st_rlx(&on.asked, 0);
	lock(&on.lock, LR_DUMP);
	restore_locked();
	unlock(&on.lock, LR_DUMP);
}

void dump_signal_forget(void)
{
	restore_locked();
	__builtin_memset(&on, 0, sizeof(on));
}
