/* SPDX-License-Identifier: MIT */
/*
 * Packs the siginfo of a signal that is passed on to another OS thread or to the process.
 *
 * The kernel forbids si_codes other than negative ones between threads.  So a siginfo is sent with
 * its code, epoch (SIGTAB-6) and number in si_errno, and its si_code tells how it was sent:
 *
 *   CODE_FORWARDED   to a thread, for routing by trampoline.c
 *   CODE_FOR_THREAD  to a thread, which handles it itself (RECEIVER-5)
 *   CODE_DEFERRED    to the process
 *   CODE_NOTE        to a thread: a note of kill.c; nothing is packed
 *   CODE_QUESTION    to a thread: a question of settle.c; nothing is packed
 */
#include "posix/signal/siginfo.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "posix/signal/sigtable.h"

enum {
	CODE_FORWARDED = -1000,
	CODE_DEFERRED = -1001,
	CODE_FOR_THREAD = -1002,
	CODE_NOTE = -1003,
	CODE_QUESTION = -1004,
	EPOCH_SHIFT = 7, /* above the number of the signal */
	EPOCH_BITS = 8,
	CODE_SHIFT = EPOCH_SHIFT + EPOCH_BITS
};

static int epoch_sig(int signo)
{
	return (int)(signal_epoch_sig(signo) & ((1u << EPOCH_BITS) - 1));
}

/* info->si_errno is the epoch. */
static siginfo_t pack(int signo, const siginfo_t *info, int code)
{
	siginfo_t packed = *info;

	packed.si_errno = (int)((unsigned)info->si_code << CODE_SHIFT |
				(unsigned)info->si_errno << EPOCH_SHIFT | (unsigned)info->si_signo);
	packed.si_code = code;
	packed.si_signo = signo;
	return packed;
}

static int send_to_thread(int tid, int signo, const siginfo_t *packed)
{
	return (int)syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, signo, packed);
}

siginfo_t siginfo_make_sig(int signo, int code)
{
	siginfo_t info = { .si_signo = signo, .si_code = code, .si_errno = epoch_sig(signo) };

	info.si_pid = getpid();
	info.si_uid = getuid();
	return info;
}

int siginfo_send_sig(int signo, const siginfo_t *info)
{
	siginfo_t packed = pack(signo, info, CODE_DEFERRED);

	return (int)syscall(SYS_rt_sigqueueinfo, getpid(), signo, &packed);
}

int siginfo_send_to_sig(int tid, int carrier, const siginfo_t *info)
{
	siginfo_t packed = pack(carrier, info, CODE_FORWARDED);

	return send_to_thread(tid, carrier, &packed);
}

int siginfo_send_for_thread_sig(int tid, int signo, const siginfo_t *info)
{
	siginfo_t packed = pack(signo, info, CODE_FOR_THREAD);

	return send_to_thread(tid, signo, &packed);
}

int siginfo_send_plain_sig(int tid, int signo, siginfo_t *info)
{
	info->si_errno = 0;
	if (tid)
		return send_to_thread(tid, signo, info);
	return (int)syscall(SYS_rt_sigqueueinfo, getpid(), signo, info);
}

int siginfo_send_question_sig(int tid, int signo, int number)
{
	siginfo_t question = { .si_signo = signo, .si_code = CODE_QUESTION };

	question.si_pid = getpid();
	question.si_value.sival_int = number;
	return send_to_thread(tid, signo, &question);
}

bool siginfo_is_question_sig(const siginfo_t *info)
{
	return info->si_code == CODE_QUESTION && info->si_pid == getpid();
}

int siginfo_send_note_sig(int tid, int signo)
{
	siginfo_t note = { .si_signo = signo, .si_code = CODE_NOTE };

	return send_to_thread(tid, signo, &note);
}

bool siginfo_is_note_sig(const siginfo_t *info)
{
	return info->si_code == CODE_NOTE;
}

bool siginfo_is_for_thread_sig(const siginfo_t *info)
{
	return info->si_code == CODE_FOR_THREAD;
}

bool siginfo_unpack_sig(siginfo_t *info)
{
	bool forwarded = info->si_code == CODE_FORWARDED || siginfo_is_for_thread_sig(info);

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

bool siginfo_is_stale_sig(const siginfo_t *info)
{
	return info->si_errno != epoch_sig(info->si_signo);
}
