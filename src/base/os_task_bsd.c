/* SPDX-License-Identifier: MIT */
/*
 * Threads of the process on FreeBSD (os_thread_*), from the sysctl kern.proc.
 *
 * A thread id is that of thr_self(2).  Not known here: the system call of a sleeping thread, its
 * registers, and the time that it was runnable without a CPU; os.h allows that.  There are no
 * timers of a thread's CPU time.
 */
#include <errno.h>
#include <limits.h>
#include <pthread_np.h>
#include <signal.h>
#include <sys/param.h>
#include <sys/mman.h>
#include <sys/proc.h>
#include <sys/resource.h>
#include <sys/sysctl.h>
#include <sys/thr.h>
#include <sys/time.h>
#include <sys/user.h>
#include <time.h>
#include <unistd.h>

#include "base/os.h"

int os_thread_id(void)
{
	return pthread_getthreadid_np();
}

bool os_thread_exists(int tid)
{
	return thr_kill2(getpid(), tid, 0) == 0;
}

const int os_thread_signal_code = SI_LWP;

int os_thread_signal(int tid, int signo)
{
	return thr_kill2(getpid(), tid, signo) == 0 ? 0 : -errno;
}

/* Read the entries of the process (flag 0: one) or of its threads (KERN_PROC_INC_THREAD).  Returns
 * how many bytes the kernel has written, 0 if it fails. */
static size_t read_proc(int flag, struct kinfo_proc *to, size_t bytes)
{
	int mib[] = { CTL_KERN, KERN_PROC, KERN_PROC_PID | flag, getpid() };
	size_t n = bytes;

	return sysctl(mib, 4, to, &n, NULL, 0) == 0 ? n : 0;
}

int os_thread_count_max(void)
{
	struct kinfo_proc p;

	return read_proc(0, &p, sizeof(p)) >= sizeof(p) ? p.ki_numthreads : INT_MAX;
}

int os_thread_count(void)
{
	return os_thread_count_max();
}

/* The kernel has no entry of a single thread: read all into a mapping of its own, since malloc may
 * be what the thread asked for. */
static bool read_thread(int tid, struct kinfo_proc *to)
{
	size_t room = ((size_t)os_thread_count_max() + 16) * sizeof(*to), got;
	bool found = false;

	if (room > (size_t)1 << 30)
		return false;
	struct kinfo_proc *all =
		mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);

	if (all == MAP_FAILED)
		return false;
	got = read_proc(KERN_PROC_INC_THREAD, all, room);
	for (size_t i = 0; i < got / sizeof(*all) && !found; i++) {
		found = all[i].ki_tid == tid;
		if (found)
			*to = all[i];
	}
	munmap(all, room);
	return found;
}

char os_thread_state(int tid)
{
	struct kinfo_proc p;

	if (!read_thread(tid, &p))
		return 0;
	switch (p.ki_stat) {
	case SRUN: return 'R';
	case SSLEEP: return p.ki_tdflags & TDF_SINTR ? 'S' : 'D';
	case SLOCK:
	case SWAIT: return 'D';
	default: return 0;
	}
}

int64_t os_thread_cpu_time(int tid)
{
	struct timespec t;
	clockid_t id;

	if (clock_getcpuclockid2(tid, CPUCLOCK_WHICH_TID, &id) != 0 || clock_gettime(id, &t) != 0)
		return 0;
	return (int64_t)t.tv_sec * S + t.tv_nsec;
}

void os_thread_slice(int tid, int64_t ns)
{
	(void)tid;
	(void)ns;
}

int64_t os_thread_delay(int tid)
{
	(void)tid;
	return -1;
}

uint64_t os_thread_slices(int tid)
{
	struct kinfo_proc p;

	return read_thread(tid, &p) ? (uint64_t)(p.ki_rusage.ru_nvcsw + p.ki_rusage.ru_nivcsw) : 0;
}

uint64_t os_thread_sleeps(int tid)
{
	struct kinfo_proc p;

	return read_thread(tid, &p) ? (uint64_t)p.ki_rusage.ru_nvcsw : 0;
}

int os_cpu_timer_begin(int tid, int signo, int64_t first, int64_t ns)
{
	(void)tid;
	(void)signo;
	(void)first;
	(void)ns;
	return -ENOSYS;
}

void os_timer_end(int timer)
{
	(void)timer;
}

bool os_thread_call(int tid, struct os_call *call)
{
	(void)tid;
	(void)call;
	return false;
}

bool os_thread_entered_at(int tid, uintptr_t *sp, uintptr_t *pc)
{
	(void)tid;
	(void)sp;
	(void)pc;
	return false;
}

bool os_thread_sleep(int tid, struct os_sleep *s)
{
	(void)tid;
	(void)s;
	return false;
}

bool os_fd_name(int fd, char *name, size_t room)
{
	(void)fd;
	if (room)
		name[0] = '\0';
	return false;
}

int os_timer_slack_now(void)
{
	return 0;
}

int os_timer_slack(int ns)
{
	(void)ns;
	return 0;
}
