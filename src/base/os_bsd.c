/* SPDX-License-Identifier: MIT */
/*
 * os.h on FreeBSD: time, CPUs, memory, signals, threads and sleeping.  OS-1 and OS-2 of
 * os_linux.c hold.
 *
 * What FreeBSD lacks: light guards (a guard is mprotect, and no limit counts mappings), locking
 * memory on its first touch, and private membarrier before 14.1.  Without membarrier the scheduler
 * uses full fences, and preemption is off (PREEMPT-5).
 */
#include "base/os.h"

#include <errno.h>
#include <limits.h>
#include <pthread_np.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/cpuset.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/umtx.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/throw.h"

/* --- time and CPU --- */

static int64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * S + t.tv_nsec;
}

int64_t os_now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

int64_t os_cpu_time(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void os_yield(void)
{
	sched_yield();
}

/* libc's nanosleep is a cancellation point; a wait for a word that no thread writes is not. */
void os_nap(int64_t ns)
{
	int64_t now = os_now();
	uint32_t word = 0;
	int before = errno; /* as on Linux */

	os_futex_wait(&word, 0, ns < NEVER - now ? now + max_of(ns, 0) : NEVER);
	errno = before;
}

int os_cpus_affinity(void)
{
	cpuset_t set;
	long n;

	CPU_ZERO(&set);
	if (cpuset_getaffinity(CPU_LEVEL_WHICH, CPU_WHICH_PID, -1, sizeof(set), &set) == 0)
		n = CPU_COUNT(&set);
	else /* ERANGE: the kernel has more CPUs than a cpuset_t */
		n = sysconf(_SC_NPROCESSORS_ONLN);
	return (int)max_of(n, 1L);
}

/* A jail limits CPUs by the affinity; rctl's pcpu throttles and is not read. */
int os_cpus_allowed(void)
{
	return os_cpus_affinity();
}

uint64_t os_random(void)
{
	uint64_t v;

	arc4random_buf(&v, sizeof(v));
	return v;
}

/* --- memory --- */

/*
 * In a process that locks its memory (mlockall with MCL_FUTURE) mmap wires, and so populates, the
 * whole mapping.  os_reserve_unlocked and os_discard unlock it again; the kernel takes its pages
 * back when it needs them.  A page below each reservation has a guard, as on Linux, so that stacks
 * of two slabs are never adjacent.
 */
enum { HEAD = PAGE };

static void *map_at(void *addr, size_t bytes, int prot, int flags)
{
	void *p = mmap(addr, bytes, prot, MAP_PRIVATE | MAP_ANON | flags, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void *map_rw(size_t bytes)
{
	return map_at(NULL, bytes, PROT_READ | PROT_WRITE, 0);
}

static bool has_lock_limit(void)
{
	struct rlimit r;

	return getrlimit(RLIMIT_MEMLOCK, &r) == 0 && r.rlim_cur != RLIM_INFINITY;
}

/* A page that no thread has touched is resident only if mmap has wired it. */
bool os_locks_memory(void)
{
	unsigned char resident = 0;
	void *page = map_rw(PAGE);

	if (!page) /* RLIMIT_MEMLOCK is used up, or there is no memory: the errno is the same */
		return errno == ENOMEM && has_lock_limit();
	os_resident(page, PAGE, &resident);
	munmap(page, PAGE);
	return resident & 1;
}

/* The caller then leaves the pages unlocked. */
int os_lock_on_fault(void *addr, size_t bytes)
{
	(void)addr;
	(void)bytes;
	return -ENOSYS;
}

bool os_lock_limited(void)
{
	return has_lock_limit() && geteuid() != 0;
}

/* mmap refuses MAP_GUARD beside MAP_PRIVATE or MAP_ANON. */
static void guard_head(void *p)
{
	if (mmap(p, HEAD, PROT_NONE, MAP_GUARD | MAP_FIXED, -1, 0) == MAP_FAILED)
		mprotect(p, HEAD, PROT_NONE);
}

void *os_reserve_unlocked(size_t bytes, bool *locks)
{
	char *p;

	*locks = os_locks_memory();
	p = map_rw(HEAD + bytes);
	if (!p)
		return NULL;
	if (*locks)
		munlock(p, HEAD + bytes);
	guard_head(p);
	return p + HEAD;
}

void *os_reserve(size_t bytes)
{
	bool locks;

	return os_reserve_unlocked(bytes, &locks);
}

void os_release(void *addr, size_t bytes)
{
	if (addr)
		munmap((char *)addr - HEAD, HEAD + bytes);
}

/* MADV_FREE frees the pages at some later time, and until then they read as before; MADV_DONTNEED
 * keeps their contents.  So map them again, which fails only without memory for the kernel. */
void os_discard(void *addr, size_t bytes)
{
	if (!map_at(addr, bytes, PROT_READ | PROT_WRITE, MAP_FIXED))
		memset(addr, 0, bytes);
	else
		munlock(addr, bytes); /* does nothing if the process does not lock its memory */
}

/* Bit 0 is MINCORE_INCORE; the others are cleared. */
bool os_resident(void *addr, size_t bytes, unsigned char *vec)
{
	if (mincore(addr, bytes, (char *)vec) != 0)
		return false;
	for (size_t i = 0; i < bytes / PAGE; i++)
		vec[i] &= MINCORE_INCORE;
	return true;
}

int os_max_maps(void)
{
	return INT_MAX; /* no limit */
}

int os_guard_light(void *addr, size_t bytes)
{
	(void)addr;
	(void)bytes;
	return -EINVAL;
}

/* --- signals --- */

int os_sigaction(int signo, const struct sigaction *sa, struct sigaction *old)
{
	return sigaction(signo, sa, old) == 0 ? 0 : -errno;
}

/* --- threads --- */

bool os_threads_block_signals; /* false: there is no libgmprt_posix */

int os_thread_create(pthread_t *t, void *(*fn)(void *), void *arg, size_t stack_size)
{
	return os_thread_make(t, fn, arg, stack_size);
}

size_t os_stack_left(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	size_t size = 0;
	pthread_attr_t attr;
	struct rlimit r;
	void *low = NULL;

	if (pthread_main_np())
		return getrlimit(RLIMIT_STACK, &r) == 0 && (uint64_t)r.rlim_cur < SIZE_MAX
			       ? (size_t)r.rlim_cur
			       : SIZE_MAX;
	if (pthread_attr_init(&attr) != 0)
		return SIZE_MAX;
	if (pthread_attr_get_np(pthread_self(), &attr) != 0 ||
	    pthread_attr_getstack(&attr, &low, &size) != 0)
		size = 0;
	pthread_attr_destroy(&attr);
	return here - (uintptr_t)low < size ? here - (uintptr_t)low : SIZE_MAX;
}

/* --- sleeping --- */

/* The bare word of _umtx_op has the meaning of a futex: the kernel compares and sleeps at once. */
int os_futex_wait(uint32_t *addr, uint32_t val, int64_t deadline)
{
	struct _umtx_time t = { ._flags = UMTX_ABSTIME, ._clockid = CLOCK_MONOTONIC };
	void *size = NULL, *until = NULL;

	if (deadline < 0)
		return -ETIMEDOUT; /* the kernel would fail with EINVAL */
	if (deadline != NEVER) {
		t._timeout.tv_sec = deadline / S;
		t._timeout.tv_nsec = deadline % S;
		size = (void *)(uintptr_t)sizeof(t);
		until = &t;
	}
	if (_umtx_op(addr, UMTX_OP_WAIT_UINT_PRIVATE, val, size, until) == 0)
		return 0;
	return errno == ETIMEDOUT ? -ETIMEDOUT : 0; /* EINTR: a spurious wakeup */
}

void os_futex_wake(uint32_t *addr, int n)
{
	_umtx_op(addr, UMTX_OP_WAKE_PRIVATE, (unsigned long)n, NULL, NULL);
}

bool os_faults(const void *addr)
{
	char byte;

	return !os_peek((uintptr_t)addr, &byte, 1);
}

bool os_shadow_stack(void)
{
	return false; /* FreeBSD has none */
}

bool os_membarrier_init(void)
{
	return false;
}

void os_membarrier(void)
{
	gmp__fatal("os_membarrier is called, although os_membarrier_init has returned false");
}
