/* SPDX-License-Identifier: MIT */
/* Thread-locals of the runtime and their opaque accessors: see base/tls.h. */
#include "base/tls.h"

#include <errno.h>
#include <gmp.h>
#include <pthread.h>

_Thread_local struct m *gmp__tls_m __attribute__((tls_model("initial-exec")));

static _Thread_local struct m *tls_blocked __attribute__((tls_model("initial-exec")));
static _Thread_local struct m *tls_abandoned __attribute__((tls_model("initial-exec")));

/* TLS-2. */
static _Thread_local void *tls_host __attribute__((tls_model("initial-exec")));

noinline void *gmp__tls_host(void)
{
	__asm__ volatile("");
	return tls_host;
}

noinline void gmp__forget_host(void)
{
	__asm__ volatile("");
	tls_host = NULL;
}

noinline void gmp__tls_offsets(ptrdiff_t *m, ptrdiff_t *host)
{
	*m = (char *)&gmp__tls_m - (char *)arch_tp();
	*host = (char *)&tls_host - (char *)arch_tp();
}

/* The same variable of the OS thread. */
static void *of_thread(void *variable)
{
	if (likely(!tls_host))
		return variable;
	return (char *)tls_host + ((char *)variable - (char *)arch_tp());
}

noinline void gmp__setm(struct m *m)
{
	gmp__tls_m = m;
	tls_blocked = tls_abandoned = NULL;
}

noinline struct m *gmp__blockedm(void)
{
	__asm__ volatile("");
	return tls_blocked;
}

noinline void gmp__setm_blocked(struct m *m)
{
	tls_blocked = m;
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* as below */
	gmp__tls_m = NULL;
}

noinline void gmp__setm_unblocked(struct m *m)
{
	gmp__tls_m = m;
	__atomic_signal_fence(__ATOMIC_SEQ_CST); /* a signal handler finds m in one of both */
	tls_blocked = NULL;
}

noinline struct m *gmp__abandonedm(void)
{
	__asm__ volatile("");
	return tls_abandoned;
}

noinline void gmp__setm_abandoned(struct m *m)
{
	tls_abandoned = m;
	gmp__tls_m = NULL;
}

static _Thread_local struct locals *tls_locals __attribute__((tls_model("initial-exec")));

noinline struct locals **gmp__external_locals(void)
{
	__asm__ volatile("");
	return &tls_locals;
}

static _Thread_local struct cleanup *tls_cleanups __attribute__((tls_model("initial-exec")));

noinline struct cleanup *gmp__external_cleanups(void)
{
	__asm__ volatile("");
	return tls_cleanups;
}

noinline void gmp__set_external_cleanups(struct cleanup *c)
{
	__asm__ volatile("");
	tls_cleanups = c;
}

static _Thread_local struct ring_ref tls_ring __attribute__((tls_model("initial-exec")));

noinline struct ring_ref *gmp__ring_ref(void)
{
	__asm__ volatile("");
	return of_thread(&tls_ring);
}

static _Thread_local struct {
	int depth;
	int state; /* of the OS thread before the outermost hold, to be restored */
} tls_cancel __attribute__((tls_model("initial-exec")));

noinline void gmp__cancel_hold(void)
{
	__asm__ volatile("");
	if (tls_cancel.depth++ == 0)
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &tls_cancel.state);
}

noinline void gmp__cancel_release(void)
{
	__asm__ volatile("");
	if (--tls_cancel.depth == 0)
		pthread_setcancelstate(tls_cancel.state, NULL);
}

noinline void gmp__cancel_renew(void)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

noinline struct signal_state *gmp__signal_state(void)
{
	static _Thread_local struct signal_state state __attribute__((tls_model("initial-exec")));

	__asm__ volatile("");
	return &state;
}

#ifdef GMP_DEBUG_CHECKS
noinline struct held_locks *gmp__held_locks(void)
{
	static _Thread_local struct held_locks held __attribute__((tls_model("initial-exec")));

	__asm__ volatile("");
	return of_thread(&held);
}
#endif

noinline int gmp__own_locals(struct own_local *own)
{
	int n = 0;

	__asm__ volatile("");
	own[n++] = (struct own_local){ &gmp__tls_m, sizeof(gmp__tls_m) };
	own[n++] = (struct own_local){ &tls_blocked, sizeof(tls_blocked) };
	own[n++] = (struct own_local){ &tls_abandoned, sizeof(tls_abandoned) };
	own[n++] = (struct own_local){ &tls_host, sizeof(tls_host) };
	own[n++] = (struct own_local){ &tls_locals, sizeof(tls_locals) };
	own[n++] = (struct own_local){ &tls_cleanups, sizeof(tls_cleanups) };
	own[n++] = (struct own_local){ &tls_cancel, sizeof(tls_cancel) };
	own[n++] = (struct own_local){ &tls_ring, sizeof(tls_ring) };
	own[n++] = (struct own_local){ gmp__signal_state(), sizeof(struct signal_state) };
#ifdef GMP_DEBUG_CHECKS
	own[n++] = (struct own_local){ gmp__held_locks(), sizeof(struct held_locks) };
#endif
	return n;
}

/* Opaque, so that the compiler does not reuse the address after a call. */
noinline int *gmp_errno_here(void)
{
	__asm__ volatile("");
	return &errno;
}
