/* SPDX-License-Identifier: MIT */
/* Wrappers of the libc calls of the runtime: count uses, inject faults, record resources. */
#define _GNU_SOURCE 1
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "faults.h"

const struct call_info calls[NCALLS] = {
#define CALL(type, name, params, args, failed, error, flags) { #name, error, flags },
#define ERRNO_CALL(type, name, params, args, error, flags) { #name, error, flags },
#define BY_HAND(name, error, flags) { #name, error, flags },
#define PART(name, error, flags) { #name, error, flags },
#include "calls.def"
#undef CALL
#undef ERRNO_CALL
#undef BY_HAND
#undef PART
};

/* --- plan --- */

static struct {
	atomic_bool on;
	enum plan_mode mode;
	int call, nth;
	int *uses;
	atomic_int scarce; /* uses of all scarce calls */
	atomic_bool fired[NCALLS];
	atomic_bool excused;
} plan;

void plan_begin(enum plan_mode mode, int call, int nth, int uses[NCALLS])
{
	plan.mode = mode;
	plan.call = call;
	plan.nth = nth;
	plan.uses = uses;
	atomic_store(&plan.on, true);
}

void plan_end(void)
{
	atomic_store(&plan.on, false);
}

enum plan_mode plan_now(void)
{
	return atomic_load(&plan.on) ? plan.mode : PLAN_NONE;
}

bool plan_fired(void)
{
	for (int i = 0; i < NCALLS; i++)
		if (atomic_load(&plan.fired[i]))
			return true;
	return false;
}

bool plan_excuses(long r, long also)
{
	if (plan.mode == PLAN_EINTR ||
	    (plan.mode == PLAN_EACH && atomic_exchange(&plan.excused, true)))
		return false;
	for (int i = 0; i < NCALLS; i++) {
		int error = calls[i].error;

		if (atomic_load(&plan.fired[i]) && (r == also || r == (error > 0 ? -error : error)))
			return true;
	}
	return false;
}

/* Counts a use of the call.  Returns true, with errno set, if this use must fail. */
static bool due(enum call call)
{
	unsigned flags = calls[call].flags;

	if (!atomic_load(&plan.on))
		return false;
	int n = __atomic_add_fetch(&plan.uses[call], 1, __ATOMIC_SEQ_CST);

	switch (plan.mode) {
	case PLAN_NONE: return false;
	case PLAN_ALL:
		if (!(flags & SCARCE) || atomic_fetch_add(&plan.scarce, 1) + 1 < plan.nth)
			return false;
		break;
	default:
		if ((int)call != plan.call || n != plan.nth)
			return false;
	}
	atomic_store(&plan.fired[call], true);
	errno = plan.mode == PLAN_EINTR ? EINTR : abs(calls[call].error);
	return true;
}

bool plan_due(enum call call)
{
	return due(call);
}

/* --- held resources --- */

enum { TABLE = 1 << 16 };

static struct {
	atomic_flag lock;
	struct {
		void *p, *maker;
		bool mapping;
	} at[TABLE];
	int blocks, mappings;
} held = { .lock = ATOMIC_FLAG_INIT };

static atomic_int threads;
static void *const gone = (void *)1;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* libgmprt_posix replaces sched_yield; the caller may hold a lock of the runtime. */
static void held_lock(void)
{
	while (atomic_flag_test_and_set(&held.lock))
		__real_syscall(SYS_sched_yield);
}

static void held_unlock(void)
{
	atomic_flag_clear(&held.lock);
}

static void hold(void *p, bool mapping, void *maker)
{
	if (!p || p == MAP_FAILED)
		return;
	held_lock();
	for (unsigned i = (unsigned)((uintptr_t)p >> 4) * 0x9e3779b1u;; i++) {
		if (held.at[i % TABLE].p > gone)
			continue;
		held.at[i % TABLE].p = p;
		held.at[i % TABLE].maker = maker;
		held.at[i % TABLE].mapping = mapping;
		break;
	}
	*(mapping ? &held.mappings : &held.blocks) += 1;
	held_unlock();
}

static void drop(void *p)
{
	if (!p)
		return;
	held_lock();
	for (unsigned i = (unsigned)((uintptr_t)p >> 4) * 0x9e3779b1u;; i++) {
		void *here = held.at[i % TABLE].p;

		if (!here)
			break; /* made by libc, or before the plan */
		if (here != p)
			continue;
		held.at[i % TABLE].p = gone;
		*(held.at[i % TABLE].mapping ? &held.mappings : &held.blocks) -= 1;
		break;
	}
	held_unlock();
}

static int count_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	CHECK(d != NULL);
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		n += e->d_name[0] != '.';
	closedir(d);
	return n - 1;
}

/* The folder has a link for each thread, which costs less than to list them. */
static int count_threads(void)
{
	struct stat s;

	CHECK_EQ(stat("/proc/self/task", &s), 0);
	return (int)s.st_nlink - 2;
}

struct held held_now(void)
{
	struct held h = { held.blocks, held.mappings, atomic_load(&threads), 0 };

	h.descriptors = count_descriptors();
	/* /proc may have a joined thread for a short time */
	for (int i = 0; count_threads() > 1 + h.threads && i < 4000; i++)
		usleep(1000);
	h.threads = count_threads() - 1;
	return h;
}

/* Prints addresses for addr2line. */
void held_print(void)
{
	extern const char __executable_start[];

	for (int i = 0; i < TABLE; i++)
		if (held.at[i].p > gone)
			fprintf(stderr, "  a %s made by %#lx\n",
				held.at[i].mapping ? "mapping" : "block",
				(unsigned long)((char *)held.at[i].maker - __executable_start));
}

/* --- wrappers generated from calls.def --- */

#define MAKER __builtin_return_address(0)
#define NOTE_(value, flags, name)                                                                  \
	do {                                                                                       \
		if ((flags)&MAKES)                                                                 \
			hold((void *)(intptr_t)(value), F_##name == F_mmap, MAKER);                \
	} while (0)

#define CALL(type, name, params, args, failed, error, flags)                                       \
	type __real_##name params;                                                                 \
	type __wrap_##name params;                                                                 \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		if (due(F_##name))                                                                 \
			return failed;                                                             \
		type result_ = __real_##name args;                                                 \
		NOTE_(result_, flags, name);                                                       \
		return result_;                                                                    \
	}
#define ERRNO_CALL(type, name, params, args, error, flags)                                         \
	type __real_##name params;                                                                 \
	type __wrap_##name params;                                                                 \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		return due(F_##name) ? (error) : __real_##name args;                               \
	}
#include "calls.def"
#undef CALL
#undef ERRNO_CALL

/*
 * If fork copied a held lock, the first allocation in the child would deadlock (libgcov allocates).
 */
__attribute__((constructor)) static void unlock_in_children(void)
{
	__real_pthread_atfork(held_lock, held_unlock, held_unlock);
}

/* --- wrappers that free a resource --- */

#define RELEASE(type, name, arg_type)                                                              \
	type __real_##name(arg_type p);                                                            \
	type __wrap_##name(arg_type p);                                                            \
	type __wrap_##name(arg_type p)                                                             \
	{                                                                                          \
		drop(p);                                                                           \
		return __real_##name(p);                                                           \
	}

RELEASE(void, free, void *)
RELEASE(int, fclose, FILE *)
RELEASE(int, closedir, DIR *)
RELEASE(void, freeaddrinfo, struct addrinfo *)
RELEASE(void, __sched_cpufree, cpu_set_t *)

int __real_munmap(void *p, size_t n);
int __wrap_munmap(void *p, size_t n);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_pthread_join(pthread_t t, void **result);
int __wrap_pthread_join(pthread_t t, void **result);

int __wrap_munmap(void *p, size_t n)
{
	drop(p);
	int result = __real_munmap(p, n);

	return due(F_munmap) ? -1 : result;
}

static atomic_uchar is_eventfd[4096];

int __wrap_close(int fd)
{
	if (fd >= 0 && fd < 4096)
		atomic_store(&is_eventfd[fd], 0);
	int result = __real_close(fd);

	return due(F_close) ? -1 : result;
}

int __wrap_pthread_join(pthread_t t, void **result)
{
	atomic_fetch_sub(&threads, 1);
	return __real_pthread_join(t, result);
}

/* --- other wrappers --- */

int __real_sigaltstack(const stack_t *ss, stack_t *old);
int __wrap_sigaltstack(const stack_t *ss, stack_t *old);

int __wrap_sigaltstack(const stack_t *ss, stack_t *old)
{
	bool sets = ss && !(ss->ss_flags & SS_DISABLE); /* a query or a removal cannot fail */

	return sets && due(F_sigaltstack) ? -1 : __real_sigaltstack(ss, old);
}

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
int __wrap_asprintf(char **to, const char *fmt, ...);
ssize_t __real___getdelim(char **line, size_t *cap, int end, FILE *f);
ssize_t __wrap___getdelim(char **line, size_t *cap, int end, FILE *f);
int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __real_getaddrinfo(const char *h, const char *s, const struct addrinfo *hints,
		       struct addrinfo **r);
int __wrap_getaddrinfo(const char *h, const char *s, const struct addrinfo *hints,
		       struct addrinfo **r);

void *__wrap_realloc(void *p, size_t n)
{
	if (due(F_realloc))
		return NULL;
	drop(p);
	p = __real_realloc(p, n);
	hold(p, false, MAKER);
	return p;
}

int __wrap_asprintf(char **to, const char *fmt, ...)
{
	va_list ap;

	if (due(F_asprintf))
		return -1;
	va_start(ap, fmt);
	int n = vasprintf(to, fmt, ap);

	va_end(ap);
	hold(*to, false, MAKER);
	return n;
}

ssize_t __wrap___getdelim(char **line, size_t *cap, int end, FILE *f)
{
	if (due(F___getdelim))
		return -1;
	drop(*line);
	ssize_t n = __real___getdelim(line, cap, end, f);

	hold(*line, false, MAKER);
	return n;
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
	if (due(F_pthread_create))
		return EAGAIN;
	int err = __real_pthread_create(t, a, fn, arg);

	if (!err)
		atomic_fetch_add(&threads, 1);
	return err;
}

int __wrap_getaddrinfo(const char *h, const char *s, const struct addrinfo *hints,
		       struct addrinfo **r)
{
	if (due(F_lookup))
		return plan.mode == PLAN_EINTR ? EAI_SYSTEM : EAI_MEMORY;
	int err = __real_getaddrinfo(h, s, hints, r);

	if (!err)
		hold(*r, false, MAKER);
	return err;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_openat(int dir, const char *path, int flags, ...);
int __wrap_openat(int dir, const char *path, int flags, ...);
int __real_fcntl(int fd, int op, ...);
int __wrap_fcntl(int fd, int op, ...);
int __real_prctl(int op, ...);
int __wrap_prctl(int op, ...);
int __real_eventfd(unsigned v, int flags);
int __wrap_eventfd(unsigned v, int flags);
int __real_epoll_ctl(int epfd, int op, int fd, struct epoll_event *e);
int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *e);
ssize_t __real_read(int fd, void *buf, size_t n);
ssize_t __wrap_read(int fd, void *buf, size_t n);
ssize_t __real_write(int fd, const void *buf, size_t n);
ssize_t __wrap_write(int fd, const void *buf, size_t n);

int __wrap_open(const char *path, int flags, ...)
{
	va_list ap;

	if (due(F_open))
		return -1;
	va_start(ap, flags);
	mode_t mode = flags & O_CREAT ? (mode_t)va_arg(ap, int) : 0;

	va_end(ap);
	return __real_open(path, flags, mode);
}

int __wrap_openat(int dir, const char *path, int flags, ...)
{
	return due(F_openat) ? -1 : __real_openat(dir, path, flags, 0);
}

int __wrap_fcntl(int fd, int op, ...)
{
	va_list ap;

	if (op != F_GETFL && due(F_fcntl))
		return -1;
	va_start(ap, op);
	long arg = va_arg(ap, long);

	va_end(ap);
	return __real_fcntl(fd, op, arg);
}

int __wrap_prctl(int op, ...)
{
	va_list ap;

	if (due(F_prctl))
		return -1;
	va_start(ap, op);
	unsigned long arg = va_arg(ap, unsigned long);

	va_end(ap);
	return __real_prctl(op, arg, 0UL, 0UL, 0UL);
}

int __wrap_eventfd(unsigned v, int flags)
{
	if (due(F_eventfd))
		return -1;
	int fd = __real_eventfd(v, flags);

	if (fd >= 0 && fd < 4096)
		atomic_store(&is_eventfd[fd], 1);
	return fd;
}

int __wrap_epoll_ctl(int epfd, int op, int fd, struct epoll_event *e)
{
	return op == EPOLL_CTL_ADD && due(F_epoll_ctl) ? -1 : __real_epoll_ctl(epfd, op, fd, e);
}

static bool may_fail(int fd)
{
	return fd < 0 || fd >= 4096 || !atomic_load(&is_eventfd[fd]);
}

ssize_t __wrap_read(int fd, void *buf, size_t n)
{
	return may_fail(fd) && due(F_read) ? -1 : __real_read(fd, buf, n);
}

ssize_t __wrap_write(int fd, const void *buf, size_t n)
{
	return may_fail(fd) && due(F_write) ? -1 : __real_write(fd, buf, n);
}

/* Returns the PART of calls.def for this system call, or NCALLS if it cannot fail. */
static enum call part_of(long number, long a, long b)
{
	switch (number) {
	case SYS_futex: return (b & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET ? F_futex_wait : NCALLS;
	case SYS_membarrier:
		return a == MEMBARRIER_CMD_PRIVATE_EXPEDITED ? F_membarrier : F_membarrier_register;
#ifdef SYS_epoll_wait
	case SYS_epoll_wait:
#endif
	case SYS_epoll_pwait: return F_epoll_wait;
	case SYS_epoll_pwait2: return F_epoll_pwait2;
	case SYS_pidfd_open: return F_pidfd_open;
	case SYS_tgkill: return F_tgkill;
	default: return NCALLS;
	}
}

long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	enum call call = part_of(number, a[0], a[1]);
	bool fails = call != NCALLS && due(call);
	int err = errno;

	if (fails && !(calls[call].flags & DONE))
		return -1;
	long result = __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);

	if (!fails)
		return result;
	errno = err;
	return -1;
}

/* --- liburing, loaded at run time --- */

struct io_uring;
struct io_uring_params;

static struct {
	int (*init)(unsigned n, struct io_uring *r, struct io_uring_params *p);
	void *(*probe)(struct io_uring *r);
	int (*submit)(struct io_uring *r);
} uring;

static int uring_init(unsigned n, struct io_uring *r, struct io_uring_params *p)
{
	return due(F_io_uring_setup) ? -ENOMEM : uring.init(n, r, p);
}

static void *uring_probe(struct io_uring *r)
{
	return due(F_io_uring_probe) ? NULL : uring.probe(r);
}

static int uring_submit(struct io_uring *r)
{
	return due(F_io_uring_submit) ? -EAGAIN : uring.submit(r);
}

static const struct {
	const char *name;
	void *real, *ours;
} stand_ins[] = {
	{ "io_uring_queue_init_params", &uring.init, (void *)uring_init },
	{ "io_uring_get_probe_ring", &uring.probe, (void *)uring_probe },
	{ "io_uring_submit", &uring.submit, (void *)uring_submit },
};

void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);

void *__wrap_dlsym(void *handle, const char *name)
{
	void *fn = __real_dlsym(handle, name);

	for (unsigned i = 0; i < 3 && fn; i++) {
		if (strcmp(name, stand_ins[i].name) != 0)
			continue;
		*(void **)stand_ins[i].real = fn;
		return stand_ins[i].ours;
	}
	return fn;
}
