/* SPDX-License-Identifier: MIT */
/*
 * What a replacement of a libc function does: park the green thread, run libc's function as
 * blocking code, or only call it.
 *
 *   caller                                              hook_how     the replacement
 *   green thread with own thread-locals, or pinned      HOOK_PARK    parks instead of blocking
 *   another green thread                                HOOK_BLOCK   libc's function between
 *                                                                    gmp_block_enter and _leave
 *   external thread; g0; blocking code; signal handler  HOOK_LIBC    libc's function
 *
 * Invariants
 *   - The runtime's own calls never enter a replacement: the core of libgmprt_posix calls
 *     gmp__libc_NAME (real.c).
 *   - A replacement returns POSIX's result and sets errno after its last wait.  errno is read
 *     right after libc's function, before the OS thread can change.
 *   - Without a wait a replacement that succeeds leaves errno as it was.
 */
#ifndef GMP_POSIX_HOOK_H
#define GMP_POSIX_HOOK_H

#include <errno.h>
#include <gmp.h>

#include "posix/call/handler.h"
#include "posix/call/real.h"
#include "run/door.h"

enum hook_how { HOOK_LIBC, HOOK_PARK, HOOK_BLOCK };

static inline enum hook_how hook_how(void)
{
	const struct g *gp = running_green();

	if (likely(!gp) || unlikely(handler_runs()))
		return HOOK_LIBC;
	return green_may_park(gp) ? HOOK_PARK : HOOK_BLOCK;
}

static inline bool hook_parks(void)
{
	return hook_how() == HOOK_PARK;
}

/* The caller, also in blocking code or in a handler, is a green thread with own thread-locals. */
static inline bool hook_has_own_tls(void)
{
	const struct g *gp = own_green();

	return gp && green_has_own_tls(gp);
}

/* Always inlined: BLOCK-5 learns the lengths of blocking code by the place of the call. */
static always_inline bool hook_block_begin(void)
{
	if (hook_how() == HOOK_LIBC)
		return false;
	gmp_block_enter();
	if (signals_used())
		mask_apply();
	return true;
}

static inline void hook_block_end(void)
{
	int saved = errno;

	handler_block_ending();
	gmp_block_leave();
	handler_block_ended();
	errno = saved;
}

/* The value of call, with the errno that it has set: as blocking code in a green thread, otherwise
 * (HOOK_LIBC) as it is. */
#define HOOK_BLOCKING(call)                                                                        \
	({                                                                                         \
		bool hook_blocks_ = hook_block_begin();                                            \
		__auto_type hook_result_ = (call);                                                 \
		if (hook_blocks_)                                                                  \
			hook_block_end();                                                          \
		hook_result_;                                                                      \
	})

/* Around libc's call, which may wait.  With GMP_SCHED=thread gmp_cancel ends it with EINTR:
 * signal/interrupt.c.  hook_call_end: it has, if the call was interrupted; keeps errno. */
bool gmp__hook_call_begin(void);
bool gmp__hook_call_end(void);

static inline bool hook_call_begin(void)
{
	return unlikely(run_has_threads()) && gmp__hook_call_begin();
}

static inline bool hook_call_end(bool begun)
{
	return unlikely(begun) && gmp__hook_call_end();
}

/* The value of call, as it is; -1 with ECANCELED if gmp_cancel has ended it. */
#define HOOK_CALL(call)                                                                            \
	({                                                                                         \
		bool hook_begun_ = hook_call_begin();                                              \
		__auto_type hook_value_ = (call);                                                  \
		if (hook_call_end(hook_begun_) && hook_value_ < 0 && errno == EINTR)               \
			errno = ECANCELED;                                                         \
		hook_value_;                                                                       \
	})

/* As HOOK_BLOCKING, for a call that waits. */
#define HOOK_WAITING(call) HOOK_BLOCKING(HOOK_CALL(call))

/* The value of call, a wait that parks in HOOK_PARK and that a handler may interrupt then. */
#define HOOK_WAIT(call) (hook_parks() ? HANDLER_WAIT(call) : HOOK_BLOCKING(call))

/*
 * As HOOK_BLOCKING, in blocking code repeated after an EINTR for which no handler of the caller has
 * run: the signal was for the green thread that the OS thread ran before (kill.c), or was forwarded
 * (trampoline.c).  Not for calls with a duration as an argument, nor for close and connect, which
 * have begun by then.  A timeout of the socket begins again.
 */
#define HOOK_REPEATING(call)                                                                       \
	HOOK_BLOCKING(({                                                                           \
		__typeof__(call) repeated_;                                                        \
		do {                                                                               \
			if (hook_blocks_)                                                          \
				handler_call_begin();                                              \
			repeated_ = HOOK_CALL(call);                                               \
		} while (hook_blocks_ && unlikely(repeated_ < 0) && errno == EINTR &&              \
			 !handler_has_run());                                                      \
		repeated_;                                                                         \
	}))

/* fn runs in the child of a fork. */
#define IN_FORK_CHILD(fn)                                                                          \
	__attribute__((constructor(102))) static void fn##_registered(void)                        \
	{                                                                                          \
		pthread_atfork(NULL, NULL, fn);                                                    \
	}

/* result >= 0, or -1 with errno set from a negative errno value. */
static inline ssize_t hook_return(ssize_t result)
{
	if (likely(result >= 0))
		return result;
	errno = (int)-result;
	return -1;
}

#endif
