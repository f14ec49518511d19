/* SPDX-License-Identifier: MIT */
/* Signals that libgmprt_posix passes on to another OS thread or to the process: siginfo.c. */
#ifndef GMP_POSIX_SIGINFO_H
#define GMP_POSIX_SIGINFO_H

#include <signal.h>
#include <stdbool.h>

/* A new signal of this process, accepted now: si_errno is its epoch (SIGTAB-6). */
siginfo_t siginfo_make_sig(int signo, int code);

/* Send the signal, whose info was unpacked or made: to the process; to the OS thread tid by the
 * signal `carrier`, which may be another; to the OS thread tid, which handles it itself.  Return 0,
 * or -1 with errno set. */
int siginfo_send_sig(int signo, const siginfo_t *info);
int siginfo_send_to_sig(int tid, int carrier, const siginfo_t *info);
int siginfo_send_for_thread_sig(int tid, int signo, const siginfo_t *info);

/* Send a new signal that a handler of any thread may handle; tid 0: to the process. */
int siginfo_send_plain_sig(int tid, int signo, siginfo_t *info);

/* Send a question of settle.c with its number, which is its si_value. */
int siginfo_send_question_sig(int tid, int signo, int number);
bool siginfo_is_question_sig(const siginfo_t *info);

/* Send a note of kill.c. */
int siginfo_send_note_sig(int tid, int signo);
bool siginfo_is_note_sig(const siginfo_t *info);

/* Before siginfo_unpack_sig: was the signal sent by siginfo_send_for_thread_sig? */
bool siginfo_is_for_thread_sig(const siginfo_t *info);
/* Undo the packing of a siginfo that one of them has sent, and set si_errno to the epoch of the
 * signal; it is 0 for the program.  Returns true if it was sent to a thread: the program had a
 * handler for it, and did not block it. */
bool siginfo_unpack_sig(siginfo_t *info);
/* After siginfo_unpack_sig: the handler that accepted the signal was removed. */
bool siginfo_is_stale_sig(const siginfo_t *info);

#endif
