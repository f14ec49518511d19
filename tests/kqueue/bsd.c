/* SPDX-License-Identifier: MIT */
/*
 * System calls of FreeBSD that src/base/os_*_bsd.c use, over those of Linux.
 *
 * They have the contract that FreeBSD's manual states, as far as gmp relies on it.  This file
 * includes none of the headers of tests/kqueue/include that rename functions.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "include/pthread_np.h"
#include "include/sys/cpuset.h"
#include "include/sys/proc.h"
#include "include/sys/sysctl.h"
#include "include/sys/thr.h"
#include "include/sys/umtx.h"
#include "include/sys/user.h"
#include "kqueue.h"

/* --- umtx --- */

static int umtx_wait(void *obj, unsigned long val, void *size, const struct _umtx_time *t)
{
	const struct timespec *until = t ? &t->_timeout : NULL;

	if (t && ((uintptr_t)size < sizeof(*t) || !(t->_flags & UMTX_ABSTIME) ||
		  t->_clockid != CLOCK_MONOTONIC)) {
		errno = EINVAL;
		return -1;
	}
	if (syscall(SYS_futex, obj, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, (uint32_t)val, until,
		    NULL, FUTEX_BITSET_MATCH_ANY) == 0 ||
	    errno == EAGAIN) /* another value: FreeBSD returns 0 */
		return 0;
	return -1;
}

int _umtx_op(void *obj, int op, unsigned long val, void *uaddr, void *uaddr2)
{
	if (op == UMTX_OP_WAIT_UINT_PRIVATE)
		return umtx_wait(obj, val, uaddr, uaddr2);
	if (op != UMTX_OP_WAKE_PRIVATE) {
		errno = EINVAL;
		return -1;
	}
	return syscall(SYS_futex, obj, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, (int)val, NULL, NULL, 0) < 0
		       ? -1
		       : 0;
}

/* --- threads --- */

int cpuset_getaffinity(int level, int which, int64_t id, size_t size, cpuset_t *mask)
{
	if (level != CPU_LEVEL_WHICH || which != CPU_WHICH_PID || id != -1) {
		errno = EINVAL;
		return -1;
	}
	if (sched_getaffinity(0, size, mask) == 0)
		return 0;
	errno = errno == EINVAL ? ERANGE : errno;
	return -1;
}

int pthread_getthreadid_np(void)
{
	return (int)syscall(SYS_gettid);
}

int pthread_main_np(void)
{
	return getpid() == pthread_getthreadid_np();
}

int pthread_attr_get_np(pthread_t thread, pthread_attr_t *attr)
{
	pthread_attr_destroy(attr);
	return pthread_getattr_np(thread, attr);
}

int thr_kill2(pid_t pid, long id, int sig)
{
	return (int)syscall(SYS_tgkill, pid, id, sig);
}

int clock_getcpuclockid2(long id, int which, clockid_t *clock);
int clock_getcpuclockid2(long id, int which, clockid_t *clock)
{
	struct timespec t;

	*clock = (clockid_t)(~(unsigned)id << 3 | 6);
	if (which == 1 && clock_gettime(*clock, &t) == 0)
		return 0;
	errno = ESRCH;
	return -1;
}

/* --- kern.proc --- */

static bool read_text(const char *tid, const char *name, char *text, size_t room)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%.20s/%s", tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, room - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

static bool read_task(const char *tid, struct kinfo_proc *p)
{
	static const char key[] = "\nvoluntary_ctxt_switches:";
	char text[3072];
	char *at;

	memset(p, 0, sizeof(*p));
	p->ki_tid = atoi(tid);
	if (!read_text(tid, "stat", text, sizeof(text)) || !(at = strrchr(text, ')')))
		return false;
	p->ki_stat = at[2] == 'R' ? SRUN : SSLEEP;
	p->ki_tdflags = at[2] == 'S' ? TDF_SINTR : 0;
	if (read_text(tid, "status", text, sizeof(text)) && (at = strstr(text, key)))
		p->ki_rusage.ru_nvcsw = strtol(at + sizeof(key) - 1, NULL, 10);
	return true;
}

static int threads(void)
{
	struct stat st;

	return stat("/proc/self/task", &st) == 0 ? (int)st.st_nlink - 2 : 0;
}

int sysctl(const int *name, unsigned namelen, void *old, size_t *oldlen, const void *new_,
	   size_t newlen)
{
	struct kinfo_proc *out = old;
	size_t room = *oldlen / sizeof(*out), n = 0;
	DIR *d;

	(void)newlen;
	if (namelen != 4 || name[0] != CTL_KERN || name[1] != KERN_PROC ||
	    !(name[2] & KERN_PROC_PID) || name[3] != getpid() || new_) {
		errno = EINVAL;
		return -1;
	}
	if (!(name[2] & KERN_PROC_INC_THREAD)) {
		memset(out, 0, sizeof(*out));
		out->ki_numthreads = threads();
		*oldlen = sizeof(*out);
		return 0;
	}
	d = opendir("/proc/self/task");
	if (!d)
		return -1;
	for (struct dirent *e; n < room && (e = readdir(d)) != NULL;)
		if (e->d_name[0] != '.')
			n += read_task(e->d_name, &out[n]);
	closedir(d);
	*oldlen = n * sizeof(*out);
	return 0;
}

/* --- memory --- */

enum { BSD_MAP_GUARD = 1 << 30 }; /* include/sys/mman.h */

void *bsd_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t at);
void *bsd_mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t at)
{
	void *p;

	if (flags & BSD_MAP_GUARD) {
		if (flags & ~(BSD_MAP_GUARD | MAP_FIXED) || prot != PROT_NONE || fd != -1 || at) {
			errno = EINVAL;
			return MAP_FAILED;
		}
		flags = (flags & ~BSD_MAP_GUARD) | MAP_PRIVATE | MAP_ANONYMOUS;
	}
	/* FreeBSD does not count a mapping before it is touched, unless vm.overcommit says so */
	p = mmap(addr, bytes, prot, flags | MAP_NORESERVE, fd, at);
	if (p == MAP_FAILED && errno == EAGAIN) /* RLIMIT_MEMLOCK */
		errno = ENOMEM;
	return p;
}

int bsd_mincore(const void *addr, size_t bytes, char *vec);
int bsd_mincore(const void *addr, size_t bytes, char *vec)
{
	return mincore((void *)(uintptr_t)addr, bytes, (unsigned char *)vec);
}

/* --- fcntl --- */

/* O_ASYNC of a file or directory is stored as its signal (F_SETSIG): Linux does not store the
 * flag. */
static int set_flags(int fd, int flags)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
		fcntl(fd, F_SETSIG, flags & O_ASYNC ? SIGIO : 0);
	return fcntl(fd, F_SETFL, flags & ~O_ASYNC);
}

int bsd_fcntl(int fd, int cmd, ...);
int bsd_fcntl(int fd, int cmd, ...)
{
	va_list ap;
	int arg, result;

	va_start(ap, cmd);
	arg = cmd == F_GETFL || cmd == F_GETFD ? 0 : va_arg(ap, int);
	va_end(ap);
	if (cmd == F_SETFL)
		return set_flags(fd, arg);
	result = fcntl(fd, cmd, arg);
	if (cmd == F_GETFL && result >= 0 && fcntl(fd, F_GETSIG) > 0)
		result |= O_ASYNC;
	if ((cmd == F_DUPFD_CLOEXEC || cmd == F_DUPFD) && result >= 0)
		kqueue_dup(fd, result);
	return result;
}
