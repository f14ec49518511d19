/* SPDX-License-Identifier: MIT */
/*
 * The signal thread: brings signals to receivers (receiver.c), and those of pthread_kill to their
 * green threads (kill.c).
 *
 * Invariants
 *   RECEIVER-4  The signal thread admits all signals of `admitted`, so one OS thread always does.
 *               It forwards to itself.  Its mask follows after that of the receiver which admits a
 *               signal: a pending signal is handled there before pthread_sigmask returns.  Other
 *               threads of the runtime that are no Ms block all signals.
 *
 * SIG_FORWARD is a signal of libc (SIGCANCEL), which is sent to the signal thread by nothing else,
 * and which is blocked there.  siginfo.c packs the siginfo.
 *
 * Rejected
 *   A pipe to a green thread, as sys/notify.c: a program that closes all fds closes it, too.
 *   All signals blocked on Ms: see monitor/faultsig.c.
 */
#include "posix/signal/sigthread.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/os.h"
#include "posix/call/handler.h"
#include "posix/call/hook.h"
#include "posix/signal/kill.h"
#include "posix/signal/receiver.h"
#include "posix/signal/settle.h"
#include "posix/signal/siginfo.h"
#include "posix/signal/sigtable.h"

enum { THREAD_STACK = 512 * 1024 }; /* handlers may run there */

static gmp_once start;

static void deliver(const siginfo_t *info)
{
	struct receiver *stored = NULL;
	enum delivery done;
	int tries = 0;

	receiver_forwarded(info->si_signo);
	if (siginfo_timer_is_gone_sig(info)) {
		receiver_arrived_sig(info->si_signo);
		return;
	}
	while ((done = receiver_deliver(info->si_signo, info, &stored)) == LATER ||
	       (done == AGAIN && tries++ < TRIES)) {
		os_nap(TRY_NS);
		kill_pass();
	}
	if (done != DONE)
		siginfo_handle_here(info); /* step 5 */
}

/* RECEIVER-4.  By a system call: libc would leave SIG_FORWARD out. */
static void set_mask(void)
{
	uint64_t blocked = (~receiver_admitted() & ~signal_undeferred()) | mask_bit(SIG_FORWARD);

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, NULL, SIGSET_BYTES);
}

/* Returns false if the thread got no SIG_FORWARD for ns (0: without bound). */
static bool next_signal(siginfo_t *info, int64_t ns)
{
	uint64_t only = mask_bit(SIG_FORWARD);
	struct timespec wait = { .tv_nsec = ns };

	return syscall(SYS_rt_sigtimedwait, &only, info, ns ? &wait : NULL, SIGSET_BYTES) ==
	       SIG_FORWARD; /* EINTR: a trampoline has forwarded a signal */
}

static _Noreturn void bring_signals(void)
{
	siginfo_t info;
	int64_t ns = 0;

	for (;;) {
		set_mask();
		if (next_signal(&info, ns) && info.si_code != CODE_NOTE) {
			siginfo_unpack_sig(&info);
			deliver(&info);
		}
		ns = kill_pass();
	}
}

static void *thread_start(void *started)
{
	gmp__signal_state()->ours = true;
	set_mask();
	receiver_set_thread(os_thread_id());
	gmp_sem_release(started, 1);
	bring_signals();
}

/* In the child of a fork. */
static void forget(void)
{
	receiver_forget_all();
	settle_forget();
	start = (gmp_once)GMP_ONCE_INIT;
}

IN_FORK_CHILD(forget)

/* If there is no thread after it, handlers run where they interrupt. */
static void start_thread(void *unused)
{
	gmp_sem started = GMP_SEM_INIT(0);
	pthread_t t;

	(void)unused;
	settle_begin();
	/* not counted as a thread of the runtime: its handlers may end waits */
	if (os_thread_create(&t, thread_start, &started, THREAD_STACK))
		return;
	int masked = gmp_cancel_mask(1); /* `started` outlives the release */

	pthread_detach(t);
	gmp_sem_acquire(&started);
	if (masked == 0)
		gmp_cancel_mask(0);
}

/* Another thread may be starting it: after that, pthread_kill and raise rely on it. */
void sigthread_begin(void)
{
	if (!receiver_thread() && receiver_routes())
		gmp_once_do(&start, start_thread, NULL);
}

void sigthread_adopt(void)
{
	receiver_forget_own();
	if (signals_used())
		sigthread_begin();
}
