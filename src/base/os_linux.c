/* SPDX-License-Identifier: MIT */
/*
 * os.h on Linux.
 *
 * Invariants
 *   OS-1  errno is read in the expression of the call that set it, or right after it, and becomes a
 *         negative return value. No caller reads errno.
 *   OS-2  No function switches green threads. A function that sleeps blocks its OS thread.
 */
#include "base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/errtext.h"
#include "base/os_cgroup.h"
#include "base/throw.h"

/* Newer than the headers of many systems. */
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

static struct timespec to_timespec(int64_t ns)
{
	return (struct timespec){ .tv_sec = ns / S, .tv_nsec = ns % S };
}

/* --- time and CPU --- */

void os_yield(void)
{
	syscall(SYS_sched_yield);
}

void os_nap(int64_t ns)
{
	struct timespec t = to_timespec(max_of(ns, 0));
	int before = errno; /* a call that does not change it may nap for a lock */

	/* libc's clock_nanosleep is a cancellation point */
	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, NULL);
	errno = before;
}

/* The kernel refuses a mask with fewer bits than it has CPUs: retry with larger masks. */
int os_cpus_affinity(void)
{
	for (int bits = 1024; bits <= 1 << 20; bits *= 2) {
		cpu_set_t *set = CPU_ALLOC(bits);
		int err, n = 0;

		if (set == NULL)
			break;
		err = sched_getaffinity(0, CPU_ALLOC_SIZE(bits), set) == 0 ? 0 : -errno;
		if (err == 0)
			n = CPU_COUNT_S(CPU_ALLOC_SIZE(bits), set);
		CPU_FREE(set);
		if (n > 0)
			return n;
		if (err != -EINVAL)
			break;
	}
	return 1;
}

int os_cpus_allowed(void)
{
	int cpus = os_cpus_affinity();
	int quota = os_cgroup_cpus("/proc/self/cgroup", "/proc/self/mountinfo");

	return min_of(cpus, quota);
}

uint64_t os_random(void)
{
	uint64_t v;

	if (getrandom(&v, sizeof(v), GRND_NONBLOCK) == sizeof(v))
		return v;
	/* early at boot, or a filter forbids it: any value that differs between runs will do */
	v = (uint64_t)os_now() ^ (uint64_t)(uintptr_t)&v << 20 ^ (uint64_t)getpid() << 44;
	v = (v ^ v >> 31) * 0x9e3779b97f4a7c15u;
	return v ^ v >> 29;
}

/* --- memory --- */

/*
 * Reservations in a process that locks its memory (mlockall).
 *
 * With MCL_FUTURE, mmap populates each writable mapping and counts it against RLIMIT_MEMLOCK.
 * mremap, however, applies the flags of the mapping that it grows. So mmap of one page, munlock and
 * mremap make a reservation of any size that is neither populated nor counted. Afterwards
 * MLOCK_ONFAULT locks the part that needs it.
 *
 * A later MCL_CURRENT populates each mapping from its lowest address up to the first page that
 * cannot be accessed. So the page below each reservation has a light guard.
 */

enum { HEAD = PAGE }; /* the guarded page below each reservation */

static void *map_rw(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Map memory that is neither populated nor locked, although the process has MCL_FUTURE set. */
static void *map_unlocked(size_t bytes)
{
	void *page = map_rw(PAGE), *p;

	if (!page)
		return NULL;
	munlock(page, PAGE);
	p = mremap(page, PAGE, bytes, MREMAP_MAYMOVE);
	if (p != MAP_FAILED)
		return p;
	munmap(page, PAGE);
	return NULL;
}

bool os_locks_memory(void)
{
	void *page = map_rw(PAGE);
	bool locks;

	if (!page) /* RLIMIT_MEMLOCK is used up, or there is no memory */
		return errno == EAGAIN;
	locks = madvise(page, PAGE, MADV_DONTNEED) != 0 && errno == EINVAL;
	munmap(page, PAGE);
	return locks;
}

int os_lock_on_fault(void *addr, size_t bytes)
{
	return (int)syscall(SYS_mlock2, addr, bytes, 1 /* MLOCK_ONFAULT */) == 0 ? 0 : -errno;
}

/* Try to lock more than the limit: only a process without a limit (CAP_IPC_LOCK) can. */
bool os_lock_limited(void)
{
	struct rlimit r;
	size_t bytes;
	bool limited;
	void *p;

	if (getrlimit(RLIMIT_MEMLOCK, &r) != 0 || r.rlim_cur == RLIM_INFINITY)
		return false;
	bytes = round_up((size_t)r.rlim_cur, PAGE) + PAGE;
	p = map_unlocked(bytes);
	limited = !p || os_lock_on_fault(p, bytes) != 0;
	if (p)
		munmap(p, bytes);
	return limited;
}

void *os_reserve_unlocked(size_t bytes, bool *locks)
{
	char *p;

	*locks = os_locks_memory();
	p = *locks ? map_unlocked(HEAD + bytes) : map_rw(HEAD + bytes);
	if (!p)
		return NULL;
	madvise(p, HEAD + bytes, MADV_NOHUGEPAGE); /* a touch must cost one small page */
	os_guard_light(p, HEAD);
	return p + HEAD;
}

void *os_reserve(size_t bytes)
{
	bool locks;
	void *p = os_reserve_unlocked(bytes, &locks);

	if (p && locks && !os_lock_limited())
		os_lock_on_fault(p, bytes);
	return p;
}

void os_release(void *addr, size_t bytes)
{
	if (addr)
		munmap((char *)addr - HEAD, HEAD + bytes);
}

/* Return false if madvise answers success without an effect, as in some emulators.  Without a page
 * to probe with (the limit of mappings is reached), trust it: memset would touch all the pages. */
static bool discard_clears(void)
{
	static int cached; /* (a) 0: not known, 1: false, 2: true; concurrent probes agree */
	int state = ld_rlx(&cached);

	if (unlikely(state == 0)) {
		volatile char *page = map_rw(PAGE);

		if (!page)
			return true;
		*page = 1;
		state = madvise((void *)page, PAGE, MADV_DONTNEED) != 0 || *page == 0 ? 2 : 1;
		munmap((void *)page, PAGE);
		st_rlx(&cached, state);
	}
	return state == 2;
}

void os_discard(void *addr, size_t bytes)
{
	if (madvise(addr, bytes, MADV_DONTNEED) == 0 ||
	    madvise(addr, bytes, MADV_DONTNEED_LOCKED) == 0) {
		if (unlikely(!discard_clears()))
			memset(addr, 0, bytes);
		return;
	}
	/* locked, before Linux 5.18 */
	munlock(addr, bytes);
	if (madvise(addr, bytes, MADV_DONTNEED) != 0)
		memset(addr, 0, bytes);
	os_lock_on_fault(addr, bytes);
}

bool os_resident(void *addr, size_t bytes, unsigned char *vec)
{
	return mincore(addr, bytes, vec) == 0;
}

int os_max_maps(void)
{
	char text[32];
	long v = 0;

	if (os_read_text("/proc/sys/vm/max_map_count", text, sizeof(text)))
		v = strtol(text, NULL, 10);
	return v <= 0 ? 65530 : v > INT_MAX ? INT_MAX : (int)v;
}

int os_guard_light(void *addr, size_t bytes)
{
	return madvise(addr, bytes, MADV_GUARD_INSTALL) == 0 ? 0 : -errno;
}

/* futex(2) reads the word before it does anything else, and no filter may forbid that call. The
 * timeout has passed, so the call returns at once whatever the word is. */
bool os_faults(const void *addr)
{
	static const struct timespec passed;

	return syscall(SYS_futex, addr, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, &passed, NULL,
		       FUTEX_BITSET_MATCH_ANY) < 0 &&
	       errno == EFAULT;
}

/* A process that has given up rights (setuid) is not dumpable, and may not open its memory. */
bool os_peek(uintptr_t at, void *buf, size_t n)
{
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return os_peek_by_pipe(at, buf, n);
	ssize_t got = pread(fd, buf, n, (off_t)at);

	close(fd);
	return got == (ssize_t)n;
}

/* --- threads --- */

bool os_threads_block_signals;

/* System calls: pthread_sigmask would unblock libc's signals. */
uint64_t os_signals_block(void)
{
	uint64_t all = ~(UINT64_C(3) << 31), before = 0;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, sizeof(all));
	return before;
}

void os_signals_restore(uint64_t before)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(before));
}

int os_thread_create(pthread_t *t, void *(*fn)(void *), void *arg, size_t stack_size)
{
	if (!os_threads_block_signals)
		return os_thread_make(t, fn, arg, stack_size);
	uint64_t before = os_signals_block();
	int err = os_thread_make(t, fn, arg, stack_size);

	os_signals_restore(before);
	return err;
}

size_t os_stack_left(void)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	size_t size = 0;
	pthread_attr_t attr;
	struct rlimit r;
	void *low = NULL;

	/* pthread_getattr_np would read /proc for the main thread */
	if (getpid() == os_thread_id())
		return getrlimit(RLIMIT_STACK, &r) == 0 && r.rlim_cur < SIZE_MAX
			       ? (size_t)r.rlim_cur
			       : SIZE_MAX;
	if (pthread_getattr_np(pthread_self(), &attr) != 0)
		return SIZE_MAX;
	if (pthread_attr_getstack(&attr, &low, &size) != 0)
		size = 0;
	pthread_attr_destroy(&attr);
	return here - (uintptr_t)low < size ? here - (uintptr_t)low : SIZE_MAX;
}

int os_thread_id(void)
{
	return (int)syscall(SYS_gettid);
}

bool os_thread_exists(int tid)
{
	return syscall(SYS_tgkill, getpid(), tid, 0) == 0;
}

#ifdef SAN_THREAD
/* The kernel's struct sigaction. */
struct kernel_action {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

static int kernel_sigaction(int signo, const struct kernel_action *ka, struct kernel_action *old)
{
	return syscall(SYS_rt_sigaction, signo, ka, old, sizeof(old->mask)) == 0 ? 0 : -errno;
}

/* Uses libc's restorer, read from the present handler, or from that of SIGSEGV, which gmp sets by
 * libc (monitor/faultsig.c). */
int os_sigaction(int signo, const struct sigaction *sa, struct sigaction *old)
{
	struct kernel_action ka = { 0 }, kold;
	int err = kernel_sigaction(signo, NULL, &kold);

	if (!err && !kold.restorer)
		err = kernel_sigaction(SIGSEGV, NULL, &kold);
	if (err)
		return err;
	if (sa) {
		ka.handler = sa->sa_handler;
		ka.restorer = kold.restorer;
		ka.flags =
			(unsigned)sa->sa_flags | (ka.restorer ? 0x04000000 : 0); /* SA_RESTORER */
		memcpy(&ka.mask, &sa->sa_mask, sizeof(ka.mask));
	}
	err = kernel_sigaction(signo, sa ? &ka : NULL, &kold);
	if (err || !old)
		return err;
	*old = (struct sigaction){ .sa_handler = kold.handler, .sa_flags = (int)kold.flags };
	memcpy(&old->sa_mask, &kold.mask, sizeof(kold.mask));
	return 0;
}
#else
int os_sigaction(int signo, const struct sigaction *sa, struct sigaction *old)
{
	return sigaction(signo, sa, old) == 0 ? 0 : -errno;
}
#endif

const int os_thread_signal_code = SI_QUEUE;

int os_thread_signal(int tid, int signo)
{
	siginfo_t info = { .si_signo = signo, .si_code = os_thread_signal_code };

	info.si_pid = getpid();
	info.si_uid = getuid();
	return syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, signo, &info) == 0 ? 0 : -errno;
}

int os_timer_slack_now(void)
{
	int ns = prctl(PR_GET_TIMERSLACK, 0UL, 0UL, 0UL, 0UL);

	return max_of(ns, 0);
}

int os_timer_slack(int ns)
{
	int saved = errno, before = os_timer_slack_now();

	prctl(PR_SET_TIMERSLACK, (unsigned long)ns, 0UL, 0UL, 0UL);
	errno = saved;
	return before;
}

bool os_shadow_stack(void)
{
	enum { SHADOW_STACK_ENABLED = 1 };
	unsigned long status = 0;
	long err = syscall(ARCH_SHADOW_CALL, ARCH_SHADOW_STATUS, &status, 0UL, 0UL, 0UL);

	return err == 0 && status & SHADOW_STACK_ENABLED;
}

/* Without futex(2) a thread would wait without end, or in a loop. */
static void check_futex_allowed(int err)
{
	if (unlikely(err == EPERM || err == ENOSYS || err == EACCES))
		gmp__fatal("the kernel refuses futex(2) (%s, errno %d): a seccomp filter must "
			   "allow it",
			   errtext(err), err);
}

int os_futex_wait(uint32_t *addr, uint32_t val, int64_t deadline)
{
	struct timespec t, *until = NULL;

#ifdef SAN_THREAD
	/* ThreadSanitizer runs the program's signal handlers in libc calls that it intercepts. This
	 * system call is not one, so wait for 20 ms at a time, and call libc in between. */
	int64_t soon = os_now() + 20 * MS;

	if (soon < deadline) {
		t = to_timespec(soon);
		syscall(SYS_futex, addr, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, val, &t, NULL,
			FUTEX_BITSET_MATCH_ANY);
		os_now();
		return 0; /* woken early */
	}
#endif
	if (deadline < 0)
		return -ETIMEDOUT; /* the kernel would fail with EINVAL */
	if (deadline != NEVER) {
		t = to_timespec(deadline);
		until = &t;
	}
	/* FUTEX_WAIT takes a duration, the bitset form a time on the clock */
	if (syscall(SYS_futex, addr, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, val, until, NULL,
		    FUTEX_BITSET_MATCH_ANY) == 0)
		return 0;
	if (errno == ETIMEDOUT)
		return -ETIMEDOUT;
	check_futex_allowed(errno);
	return 0; /* EAGAIN, EINTR: a spurious wakeup */
}

void os_futex_wake(uint32_t *addr, int n)
{
	/* EFAULT: the waiter has seen the new value, and its stack is unmapped already */
	if (syscall(SYS_futex, addr, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n, NULL, NULL, 0) < 0)
		check_futex_allowed(errno);
}

bool os_membarrier_init(void)
{
	return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void os_membarrier(void)
{
	/* the kernel allocates a mask of CPUs; the caller cannot continue without the barrier */
	while (unlikely(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) < 0)) {
		if (errno != ENOMEM)
			gmp__fatal("the kernel refuses membarrier(2) (%s, errno %d), which it "
				   "allowed when the run began\n"
				   "allow it in the seccomp filter, or install the filter before "
				   "gmp_run",
				   errtext(errno), errno);
		os_yield();
	}
}
