/* SPDX-License-Identifier: MIT */
/*
 * os.h: what Linux and FreeBSD have alike: CPUs, memory, signals, threads.  OS-1 and OS-2 of
 * os_linux.c hold.
 */
#include "base/os.h"

#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "base/atomic.h"

/* --- time and CPU --- */

int64_t os_real_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * S + t.tv_nsec;
}

int os_cpus_online(void)
{
	static int cached; /* (a) 0: not read yet; concurrent readers store the same value */
	int n = ld_rlx(&cached);

	if (unlikely(n == 0)) {
		n = os_cpus_affinity();
		st_rlx(&cached, n);
	}
	return n;
}

/* --- memory --- */

void os_release_part(void *addr, size_t bytes)
{
	munmap(addr, bytes);
}

int os_guard_protect(void *addr, size_t bytes)
{
	return mprotect(addr, bytes, PROT_NONE) == 0 ? 0 : -errno;
}

/* --- signals --- */

enum { SIGNALS = 128 }; /* of FreeBSD; sigaddset refuses numbers that the system lacks */

/* Bit 63 is signal 64 and all above it: the real-time signals of FreeBSD. */
static sigset_t signal_set(uint64_t bits)
{
	sigset_t set;

	sigemptyset(&set);
	for (int signo = 1; signo <= SIGNALS; signo++)
		if (bits >> min_of(signo - 1, 63) & 1)
			sigaddset(&set, signo);
	return set;
}

void os_mask(uint64_t block, uint64_t unblock)
{
	sigset_t b = signal_set(block), u = signal_set(unblock);

	pthread_sigmask(SIG_BLOCK, &b, NULL);
	pthread_sigmask(SIG_UNBLOCK, &u, NULL);
}

bool os_handler_is(int signo, void (*handler)(int signo))
{
	struct sigaction now;

	return os_sigaction(signo, NULL, &now) == 0 && now.sa_handler == handler;
}

/* --- threads --- */

/* The thread-local area of the program counts against the stack size. If too little remains,
 * pthread_create fails with EINVAL: retry with twice the size. */
int os_thread_make(pthread_t *t, void *(*fn)(void *), void *arg, size_t stack_size)
{
	size_t least = (size_t)PTHREAD_STACK_MIN;
	size_t size = round_up(max_of(stack_size, least), PAGE);
	int err;

	do {
		pthread_attr_t attr;

		err = pthread_attr_init(&attr);
		if (err != 0)
			break;
		err = pthread_attr_setstacksize(&attr, size);
		if (err == 0)
			err = pthread_create(t, &attr, fn, arg);
		pthread_attr_destroy(&attr);
		size *= 2;
	} while (err == EINVAL && size <= (size_t)1 << 30);
	return -err;
}

uint64_t os_own_sleeps(void)
{
	struct rusage r;

	return getrusage(RUSAGE_THREAD, &r) == 0 ? (uint64_t)r.ru_nvcsw : 0;
}
