/* SPDX-License-Identifier: MIT */
/*
 * Interrupts calls of libc in green threads that are OS threads (GMP_SCHED=thread): by a signal
 * without SA_RESTART, which is repeated.  variant/thread.h has the protocol.
 *
 * The signal is SIG_FORWARD, which libc leaves out of each mask.  Its handler does nothing: the
 * system call returns EINTR, and the replacement makes ECANCELED of that (hook.h).
 *
 * Invariants
 *   INTERRUPT-1  libc's first pthread_cancel sets its own handler, with SA_RESTART.  So each
 *                interrupt sets this one again, which calls libc's, and so does the replaced
 *                pthread_cancel.  A later signal of the timer then ends the call.
 *   INTERRUPT-2  A handler of the program is not interrupted: its trampoline blocks SIG_FORWARD,
 *                and its calls are libc's alone.  If it leaves by longjmp, which may keep the mask,
 *                the next call of a replaced function unblocks SIG_FORWARD.
 *
 * Not ended: calls in which the kernel or libc continues after a handler (pthread_cond_wait,
 * pthread_mutex_lock, pthread_join, regular files); any call if no timer can be made, since the
 * kernel's queue of signals is full (RLIMIT_SIGPENDING).  INTERRUPT-2 does not hold for handlers
 * that functions other than sigaction and signal have set.
 *
 * Rejected: a single signal, which a thread between its check and the system call misses; a
 * canceller that repeats it, since gmp_cancel does not wait.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os.h"
#include "posix/call/hook.h"
#include "posix/signal/settle.h"
#include "posix/signal/sigtable.h"

/* After a signal that came too early, the call lasts as long.  Not measured. */
enum { AGAIN_NS = MS };

static int interrupt(int tid)
{
	int saved = errno;

	settle_interrupts();
	int timer = os_timer_begin(tid, SIG_FORWARD, AGAIN_NS);

	errno = saved;
	return timer;
}

bool gmp__hook_call_begin(void)
{
	uint64_t forward = mask_bit(SIG_FORWARD);

	if (handler_runs())
		return false;
	if (unlikely(gmp__signal_state()->high)) /* a handler has been left */
		syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &forward, NULL, SIGSET_BYTES);
	signals_hold();
	bool begun = libc_call_begin();

	signals_release();
	return begun;
}

bool gmp__hook_call_end(void)
{
	int saved = errno;

	signals_hold();
	bool ended = libc_call_end();

	signals_release();
	if (unlikely(ended))
		gmp_checkpoint();
	errno = saved;
	return ended;
}

__attribute__((constructor(102))) static void begin(void)
{
	libc_call_interrupted_by(interrupt, os_timer_end);
}
