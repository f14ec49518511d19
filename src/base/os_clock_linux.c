/* SPDX-License-Identifier: MIT */
/*
 * Clocks of os.h on Linux, read by the kernel's own function in the vDSO; timers of CPU time.
 *
 * A preloaded library may replace libc's clock_gettime and show another time, as libfaketime does.
 * The kernel ends the runtime's waits by the real clock, so the runtime must not read another:
 * with a clock that runs ahead, deadlines would be beyond the end of each wait.
 *
 * The kernel maps the vDSO, an ELF image, into each process, and auxv has its address.  Without it
 * (some emulators, Valgrind) the system call is made.
 *
 * Invariants
 *   CLOCK-1  read_clock changes once, from NULL to the function.  Several threads may look it up at
 *            the same time: they store the same value.  The lookup is async-signal-safe.
 */
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/libc.h"
#include "base/os.h"

#ifdef __aarch64__
#define VDSO_CLOCK "__kernel_clock_gettime"
#else
#define VDSO_CLOCK "__vdso_clock_gettime"
#endif

typedef int (*clock_fn)(clockid_t clock, struct timespec *t);

struct image {
	const ElfW(Sym) * symbols;
	const char *names;
	size_t n;         /* symbols */
	uintptr_t offset; /* from an address in the image to that in memory */
};

/* The table has no length: it ends with the longest chain.  A chain ends with an odd number. */
static size_t gnu_hash_symbols(const uint32_t *hash)
{
	uint32_t buckets = hash[0], first = hash[1], last = 0;
	const uint32_t *bucket = hash + 4 + hash[2] * (sizeof(ElfW(Addr)) / sizeof(*hash));
	const uint32_t *chain = bucket + buckets;

	for (uint32_t i = 0; i < buckets; i++)
		last = max_of(last, bucket[i]);
	if (last < first)
		return 0;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

static void read_dynamic(struct image *im, const ElfW(Dyn) * d)
{
	for (; d->d_tag != DT_NULL; d++) {
		const void *at = (const void *)(im->offset + d->d_un.d_ptr);

		switch (d->d_tag) {
		case DT_SYMTAB: im->symbols = at; break;
		case DT_STRTAB: im->names = at; break;
		case DT_HASH: im->n = ((const uint32_t *)at)[1]; break;
		case DT_GNU_HASH: im->n = im->n ? im->n : gnu_hash_symbols(at); break;
		default: break;
		}
	}
}

/* Returns false if there is no image with a table of symbols. */
static bool read_image(struct image *im, const ElfW(Ehdr) * head)
{
	const ElfW(Phdr) * ph;
	const ElfW(Dyn) *dynamic = NULL;
	bool loaded = false;

	if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
		return false;
	ph = (const ElfW(Phdr) *)((uintptr_t)head + head->e_phoff);
	for (int i = 0; i < head->e_phnum; i++, ph++) {
		if (ph->p_type == PT_LOAD && !loaded) {
			im->offset = (uintptr_t)head + ph->p_offset - ph->p_vaddr;
			loaded = true;
		} else if (ph->p_type == PT_DYNAMIC) {
			dynamic = (const ElfW(Dyn) *)((uintptr_t)head + ph->p_offset);
		}
	}
	if (!loaded || !dynamic)
		return false;
	read_dynamic(im, dynamic);
	return im->symbols && im->names;
}

static int clock_by_kernel(clockid_t clock, struct timespec *t)
{
	return (int)syscall(SYS_clock_gettime, clock, t);
}

static clock_fn find_clock(void)
{
	struct image im = { 0 };

#ifdef SAN_THREAD
	return clock_gettime; /* ThreadSanitizer runs the program's signal handlers in it */
#endif
	if (!read_image(&im, (const ElfW(Ehdr) *)getauxval(AT_SYSINFO_EHDR)))
		return clock_by_kernel;
	for (size_t i = 0; i < im.n; i++) {
		const ElfW(Sym) *s = &im.symbols[i];

		if (s->st_shndx != SHN_UNDEF && strcmp(im.names + s->st_name, VDSO_CLOCK) == 0)
			return (clock_fn)(im.offset + s->st_value);
	}
	return clock_by_kernel;
}

static clock_fn read_clock; /* (a) CLOCK-1; NULL: not found yet */

static noinline clock_fn find_clock_once(void)
{
	clock_fn found = find_clock();

	st_rlx(&read_clock, found);
	return found;
}

static int64_t clock_ns(clockid_t clock)
{
	struct timespec t = { 0 };
	clock_fn fn = ld_rlx(&read_clock);

	if (unlikely(!fn))
		fn = find_clock_once();
	fn(clock, &t);
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

/* The kernel's number of the clock of a thread's CPU time; clock_getcpuclockid has only that of a
 * process. */
static clockid_t thread_clock(int tid)
{
	return (clockid_t)(~(unsigned)tid << 3 | 4 | 2); /* of one thread; scheduled time */
}

int64_t os_thread_cpu_time(int tid)
{
	return clock_ns(thread_clock(tid));
}

/* By system calls: until glibc 2.34 timer_create is in another library. */
static int timer_begin(clockid_t clock, int tid, int signo, int64_t first, int64_t ns)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signo };
	struct itimerspec spec = {
		.it_value = { .tv_sec = first / S, .tv_nsec = first % S },
		.it_interval = { .tv_sec = ns / S, .tv_nsec = ns % S },
	};
	int timer;

	event.sigev_notify_thread_id = tid;
	if (syscall(SYS_timer_create, clock, &event, &timer) < 0)
		return -errno;
	if (syscall(SYS_timer_settime, timer, 0, &spec, NULL) < 0) {
		int err = -errno;

		os_timer_end(timer);
		return err;
	}
	return timer;
}

int os_cpu_timer_begin(int tid, int signo, int64_t first, int64_t ns)
{
	return timer_begin(thread_clock(tid), tid, signo, first, ns);
}

int os_timer_begin(int tid, int signo, int64_t ns)
{
	return timer_begin(CLOCK_MONOTONIC, tid, signo, 1, ns);
}

void os_timer_end(int timer)
{
	syscall(SYS_timer_delete, timer);
}
