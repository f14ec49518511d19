/* SPDX-License-Identifier: MIT */
/*
 * Replaces the functions that look up names: libc's function runs as blocking code.
 *
 * It may wait for name servers for half a minute, in modules that libc loads.  So each lookup of a
 * green thread takes an OS thread.  At most LOOKUPS run at a time; others park for a slot, in FIFO
 * order, also if they need no name server.  A slot is given back in the blocking code, so that a
 * caller that is killed at shutdown does not keep it; for a moment its OS thread and that of the
 * next lookup are both in use.  The slot of a lookup that a signal handler has left by siglongjmp
 * is given back at the thread's next lookup, or at its end.
 *
 * h_errno is a thread-local: it is read before the caller can move to another OS thread, as errno
 * is.
 */
#include <netdb.h>

#include "base/throw.h"
#include "posix/call/hook.h"
#include "posix/call/point.h"

/* A larger number takes more OS threads and memory if a name server does not answer, a smaller one
 * delays more lookups meanwhile.  Not measured. */
enum { LOOKUPS = 128 };

static gmp_sem slots = GMP_SEM_INIT(LOOKUPS);

/* Not NULL: the caller's lookup holds a slot.  Valid once `begun`. */
static pthread_key_t holds;
static bool begun;

static void give_back(void *unused)
{
	(void)unused;
	signals_hold();
	gmp_sem_release(&slots, 1);
	signals_release();
}

/* Give the slot of the caller's lookup back, if it still holds one.  Leaves errno. */
static void slot_release(void)
{
	int saved = errno;

	if (begun && pthread_getspecific(holds)) {
		pthread_setspecific(holds, NULL);
		give_back(NULL);
	}
	errno = saved;
}

/* Wait for a slot, and note it: a handler that runs after the wait may leave by siglongjmp.
 * Without memory for that the lookup continues without it. */
static int slot_await(void)
{
	int err = gmp_sem_acquire(&slots);

	if (!err && pthread_setspecific(holds, &holds))
		give_back(NULL);
	return err;
}

/* Take a slot.  False: gmp_cancel has ended the wait, and the lookup continues without one; or the
 * caller is no green thread. */
static bool slot_acquire(void)
{
	int err;

	/* a handler has left the last lookup; or that is under way, and libc calls a module that
	 * looks up a name itself */
	if (!handler_runs())
		slot_release();
	if (hook_how() == HOOK_LIBC)
		return false;
	hook_point();
	do
		err = HANDLER_WAIT(slot_await());
	while (err == -EINTR);
	if (err == -ECANCELED)
		cancel_waited();
	return err == 0;
}

/* The threads of the parent that look up names are not in the child. */
static void forked(void)
{
	slots = (gmp_sem)GMP_SEM_INIT(LOOKUPS);
	pthread_setspecific(holds, NULL);
}

__attribute__((constructor)) static void resolve_begin(void)
{
	if (pthread_key_create(&holds, give_back))
		gmp__fatal("libgmprt_posix: all keys of pthread_key_create are in use");
	begun = true;
	pthread_atfork(NULL, NULL, forked);
}

/* Not inlined: libc declares the address of h_errno as constant, but the thread may change. */
static noinline void set_h_errno(int err)
{
	__asm__ volatile("");
	h_errno = err;
}

/* The value of call in each kind of caller. */
#define LOOKUP(call)                                                                               \
	({                                                                                         \
		int h_errno_ = 0;                                                                  \
		bool held_ = slot_acquire();                                                       \
		__auto_type lookup_result_ = HOOK_BLOCKING(({                                      \
			__auto_type inner_ = (call);                                               \
			h_errno_ = h_errno;                                                        \
			if (held_)                                                                 \
				slot_release();                                                    \
			inner_;                                                                    \
		}));                                                                               \
		set_h_errno(h_errno_);                                                             \
		lookup_result_;                                                                    \
	})

HOOK int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints,
		     struct addrinfo **res)
{
	return LOOKUP(LIBC(getaddrinfo)(host, service, hints, res));
}

HOOK struct hostent *gethostbyname(const char *name)
{
	return LOOKUP(LIBC(gethostbyname)(name));
}

HOOK struct hostent *gethostbyname2(const char *name, int family)
{
	return LOOKUP(LIBC(gethostbyname2)(name, family));
}

HOOK int gethostbyname_r(const char *name, struct hostent *ret, char *buf, size_t n,
			 struct hostent **result, int *err)
{
	return LOOKUP(LIBC(gethostbyname_r)(name, ret, buf, n, result, err));
}

HOOK int gethostbyname2_r(const char *name, int family, struct hostent *ret, char *buf, size_t n,
			  struct hostent **result, int *err)
{
	return LOOKUP(LIBC(gethostbyname2_r)(name, family, ret, buf, n, result, err));
}

HOOK struct hostent *gethostbyaddr(const void *addr, socklen_t len, int type)
{
	return LOOKUP(LIBC(gethostbyaddr)(addr, len, type));
}

HOOK int gethostbyaddr_r(const void *addr, socklen_t len, int type, struct hostent *ret, char *buf,
			 size_t n, struct hostent **result, int *err)
{
	return LOOKUP(LIBC(gethostbyaddr_r)(addr, len, type, ret, buf, n, result, err));
}

HOOK int getnameinfo(const struct sockaddr *addr, socklen_t len, char *host, socklen_t host_room,
		     char *service, socklen_t service_room, int flags)
{
	return LOOKUP(LIBC(getnameinfo)(addr, len, host, host_room, service, service_room, flags));
}
