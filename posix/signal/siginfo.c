/* SPDX-License-Identifier: MIT */
/*
 * Packs the siginfo of a signal that is passed on to another OS thread or to the process.
 *
 * The kernel forbids si_codes other than negative ones between threads.  So a siginfo is sent with
 * its code, epoch (SIGTAB-6) and number in si_errno, and its si_code tells how it was sent.
 */
#include "posix/signal/siginfo.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "posix/signal/sigtable.h"

enum {
	EPOCH_SHIFT = 7, /* above the number of the signal */
	EPOCH_BITS = 8,
	CODE_SHIFT = EPOCH_SHIFT + EPOCH_BITS
};

static int epoch_sig(int signo)
{
	return (int)(signal_epoch_sig(signo) & ((1u << EPOCH_BITS) - 1));
}

siginfo_t siginfo_make_sig(int signo, int code)
{
	siginfo_t info = { .si_signo = signo, .si_code = code, .si_errno = epoch_sig(signo) };

	info.si_pid = getpid();
	info.si_uid = getuid();
	return info;
}

int siginfo_send_sig(int tid, int signo, const siginfo_t *info)
{
	if (tid)
		return (int)syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, signo, info);
	return (int)syscall(SYS_rt_sigqueueinfo, getpid(), signo, info);
}

int siginfo_pass_sig(int tid, int carrier, const siginfo_t *info, enum signal_code code)
{
	siginfo_t packed = *info;

	packed.si_errno = (int)((unsigned)info->si_code << CODE_SHIFT |
				(unsigned)info->si_errno << EPOCH_SHIFT | (unsigned)info->si_signo);
	packed.si_code = code;
	packed.si_signo = carrier;
	return siginfo_send_sig(tid, carrier, &packed);
}

int siginfo_handle_here(const siginfo_t *info)
{
	int signo = info->si_signo;
	int result = siginfo_pass_sig(os_thread_id(), signo, info, CODE_FOR_THREAD);

	signal_unblock(signo);
	return result;
}

int siginfo_send_mark_sig(int tid, int signo, enum signal_code code, int value)
{
	siginfo_t mark = { .si_signo = signo, .si_code = code };

	mark.si_pid = getpid();
	mark.si_value.sival_int = value;
	return siginfo_send_sig(tid, signo, &mark);
}

bool siginfo_unpack_sig(siginfo_t *info)
{
	bool forwarded = info->si_code == CODE_FORWARDED || info->si_code == CODE_FOR_THREAD;

	if (!forwarded && info->si_code != CODE_DEFERRED) {
		info->si_errno = epoch_sig(info->si_signo);
		return false;
	}
	int packed = info->si_errno;

	info->si_signo = packed & ((1 << EPOCH_SHIFT) - 1);
	info->si_errno = packed >> EPOCH_SHIFT & ((1 << EPOCH_BITS) - 1);
	info->si_code = packed >> CODE_SHIFT;
	return forwarded;
}

bool siginfo_timer_is_gone_sig(const siginfo_t *info)
{
	return info->si_code == SI_TIMER && syscall(SYS_timer_getoverrun, info->si_timerid) < 0 &&
	       errno == EINVAL;
}

bool siginfo_is_stale_sig(const siginfo_t *info)
{
	return info->si_errno != epoch_sig(info->si_signo);
}
