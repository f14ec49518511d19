/* SPDX-License-Identifier: MIT */
/* The program's dispositions of signals: see sigtable.c. */
#ifndef GMP_POSIX_SIGTABLE_H
#define GMP_POSIX_SIGTABLE_H

#include "base/libc.h"
#include "base/os.h"
#include "posix/call/real.h"
#include "posix/call/sigset.h"

/* SIG_FORWARD: the signal that brings forwarded signals, notes and questions to a thread.
 * SIGSET_BYTES: the size of the kernel's sets. */
enum { SIGNALS = 64, SIG_FORWARD = SIG_CANCEL, SIGSET_BYTES = 8 };

typedef void (*handler_fn)(int signo, siginfo_t *info, void *context);

/* Signals that are never deferred: faults, and those of libc and the runtime. */
uint64_t signal_undeferred(void);

/* Signals with a handler. */
uint64_t signal_handled(void);

/* What the program has set; ACTION_IGNORE also if the default action does nothing, ACTION_DEFAULT
 * also if a function other than sigaction and signal has set the handler: the kernel calls it. */
enum signal_action { ACTION_DEFAULT, ACTION_IGNORE, ACTION_HANDLER };
enum signal_action signal_action(int signo);

/* The calling OS thread admits the signal: a pending one is handled before this returns. */
void signal_unblock(int signo);

/* A lock that a signal handler may take, too: all signals are blocked until the unlock.  Returns
 * the mask from before. */
static inline uint64_t signals_lock(pthread_spinlock_t *l)
{
	uint64_t before = os_signals_block();

	while (pthread_spin_trylock(l))
		LIBC(sched_yield)();
	return before;
}

static inline void signals_unlock(pthread_spinlock_t *l, uint64_t before)
{
	pthread_spin_unlock(l);
	os_signals_restore(before);
}

/* --- SIGTAB-3 --- */

/* Before the signals in bits stop being delivered: signals with the default action get the
 * trampoline, so that an OS thread that does not block them yet can defer them. */
void signal_hold_defaults(uint64_t bits);
/* The same, also when the program sets the default action later.  Before a run begins. */
void signal_hold_always(uint64_t bits);
/* After the signals in bits are delivered again. */
void signal_release_defaults(uint64_t bits);

/* --- handlers: any thread --- */

/* SIG_DFL, SIG_IGN or a function. */
handler_fn signal_handler_sig(int signo);
/* It has SA_RESETHAND. */
bool signal_resets_sig(int signo);
/* SIGTAB-6: how often a handler of the signal was removed. */
uint32_t signal_epoch_sig(int signo);
/* The kernel has the default action again. */
void signal_dropped_sig(int signo);

static inline bool is_function_sig(handler_fn handler)
{
	return handler && handler != (handler_fn)(void *)SIG_IGN;
}

static inline bool is_function(const struct sigaction *sa)
{
	return is_function_sig(sa->sa_sigaction);
}

static inline bool does_nothing_by_default(int signo)
{
	return signo == SIGCHLD || signo == SIGCONT || signo == SIGWINCH || signo == SIGURG;
}

/* --- the table --- */

/* Before the first sigaction of the program: the trampolines for handlers, and for SIGTAB-3. */
void sigtable_begin(handler_fn trampoline, handler_fn default_trampoline);
/* The signal has an entry, and the caller is no child of a vfork (SIGTAB-5). */
bool sigtable_has(int signo);
/* *sa, which the kernel has, is a trampoline. */
bool is_trampoline(const struct sigaction *sa);

/* As signals_lock.  The other functions are called in between. */
uint64_t sigtable_lock(void);
void sigtable_unlock(uint64_t before);
struct sigaction sigtable_entry(int signo);
void sigtable_set(int signo, const struct sigaction *sa);
/* SIGTAB-6: begin an epoch. */
void sigtable_drop(int signo);
/* What the kernel gets for *sa.  deferred: receivers exist and block the signal; dropped:
 * SIGTAB-6. */
struct sigaction sigtable_for_kernel(int signo, const struct sigaction *sa, bool deferred,
				     bool dropped);

#endif
