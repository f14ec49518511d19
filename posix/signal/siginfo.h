/* SPDX-License-Identifier: MIT */
/* Signals that libgmprt_posix passes on to another OS thread or to the process: siginfo.c. */
#ifndef GMP_POSIX_SIGINFO_H
#define GMP_POSIX_SIGINFO_H

#include <signal.h>
#include <stdbool.h>

/* A new signal of this process, accepted now: si_errno is its epoch (SIGTAB-6). */
siginfo_t siginfo_make_sig(int signo, int code);

/*
 * How a signal was sent, its si_code.
 *
 * CODE_FORWARDED   to a thread, for routing by trampoline.c
 * CODE_DEFERRED    to the process
 * CODE_FOR_THREAD  to a thread, which handles it itself (RECEIVER-5)
 * CODE_NOTE        to a thread: a note of kill.c, a mark without content
 * CODE_QUESTION    to a thread: a question of settle.c, a mark whose si_value is its number
 */
enum signal_code {
	CODE_FORWARDED = -1000,
	CODE_DEFERRED = -1001,
	CODE_FOR_THREAD = -1002,
	CODE_NOTE = -1003,
	CODE_QUESTION = -1004
};

/* The functions that send return 0, or -1 with errno set. */

/* Send a signal that a handler of any thread may handle; tid 0: to the process. */
int siginfo_send_sig(int tid, int signo, const siginfo_t *info);
/* Send the signal, whose info was unpacked or made, by the signal `carrier`, which may be another;
 * tid 0: to the process. */
int siginfo_pass_sig(int tid, int carrier, const siginfo_t *info, enum signal_code code);
/* The calling OS thread handles the signal, whose info was unpacked or made, before this returns.
 * The signal is sent before it is unblocked: of two that are pending, the kernel delivers that of
 * the thread first.  One of the process, which no receiver admits, would block the signal again
 * (route_blocked_sig). */
int siginfo_handle_here(const siginfo_t *info);
/* Send a mark, which does not change what is pending for the program. */
int siginfo_send_mark_sig(int tid, int signo, enum signal_code code, int value);

/* Undo the packing of a siginfo that was passed on, and set si_errno to the epoch of the
 * signal; it is 0 for the program.  Returns true if it was sent to a thread: the program had a
 * handler for it, and did not block it. */
bool siginfo_unpack_sig(siginfo_t *info);
/* After siginfo_unpack_sig: the handler that accepted the signal was removed. */
bool siginfo_is_stale_sig(const siginfo_t *info);
/* After siginfo_unpack_sig, of a signal that was passed on: its timer was deleted meanwhile.  The
 * kernel, which drops a pending signal then, gives the number to no other timer.  May change errno.
 */
bool siginfo_timer_is_gone_sig(const siginfo_t *info);

#endif
