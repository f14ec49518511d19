/* SPDX-License-Identifier: MIT */
/* State of the process's threads (os_thread_*), from files below /proc/self/task/TID. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os.h"

/* Read the file as text. Returns false if it is empty or cannot be read. */
static bool read_task(int tid, const char *name, char *text, size_t room)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid, name);
	return os_read_text(path, text, room);
}

/* The kernel lists io_uring's workers among the threads; their names are iou-wrk-N or iou-sqp-N. */
static bool is_uring_worker(int tid)
{
	char name[32];

	return read_task(tid, "comm", name, sizeof(name)) && strncmp(name, "iou-", 4) == 0;
}

/* The directory has one link per thread, and two others. */
int os_thread_count_max(void)
{
	struct stat st;

	if (stat("/proc/self/task", &st) == 0 && st.st_nlink > 2)
		return (int)st.st_nlink - 2;
	return INT_MAX;
}

/* May return too many, not too few: the caller asks whether other threads may act. Counts links
 * instead of entries: if a thread ends during readdir, the kernel ends the list early. */
int os_thread_count(void)
{
	DIR *d = opendir("/proc/self/task");
	int before = os_thread_count_max(), workers = 0;

	if (d == NULL) /* no file descriptor left */
		return before;
	for (struct dirent *e; (e = readdir(d)) != NULL;)
		workers += e->d_name[0] != '.' && is_uring_worker(atoi(e->d_name));
	closedir(d);
	return max_of(before, os_thread_count_max()) - workers;
}

char os_thread_state(int tid)
{
	char text[256];
	const char *state;

	if (!read_task(tid, "stat", text, sizeof(text)))
		return 0;
	state = strrchr(text, ')'); /* ends the name, which may contain any character */
	return state && state[1] ? state[2] : 0;
}

/* struct sched_attr of the kernel, its first version. */
struct slice_attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/*
 * Measured: the kernel's slices.  A sleep of 1 ms beside n Gs that compute, two Ps and CPUs, Linux
 * 6.18, p99 and longest of 3 s, ms: with the kernel's default for all threads 5 and 20 (n = 16), 40
 * and 140 (n = 64); with a slice of 10 ms for preempted threads 7.6 and 26, 12.8 and 41; with 0.1
 * ms for the others too 4 and 15, 5 and 16.  With 100 ms instead of 10 for preempted threads the
 * longest sleep was up to 105 ms: a thread that has used 100 ms at once waits for 100 ms of each of
 * the others.  Before Linux 6.12 the kernel ignores the request, and the first figures hold.
 */
void os_thread_slice(int tid, int64_t ns)
{
	struct slice_attr a = { 0 };
	int saved = errno;

	/* the policy and the nice value that the program has set stay */
	if (syscall(SYS_sched_getattr, tid, &a, sizeof(a), 0U) == 0 &&
	    (a.policy == SCHED_OTHER || a.policy == SCHED_BATCH)) {
		a.size = sizeof(a);
		a.runtime = (uint64_t)ns;
		syscall(SYS_sched_setattr, tid, &a, 0U);
	}
	errno = saved;
}

struct schedstat {
	int64_t cpu, delay;
	uint64_t slices;
};

static bool read_schedstat(int tid, struct schedstat *s)
{
	char text[96];

	return read_task(tid, "schedstat", text, sizeof(text)) &&
	       sscanf(text, "%" SCNd64 " %" SCNd64 " %" SCNu64, &s->cpu, &s->delay, &s->slices) ==
		       3;
}

int64_t os_thread_delay(int tid)
{
	struct schedstat s;

	return read_schedstat(tid, &s) ? s.delay : -1;
}

uint64_t os_thread_slices(int tid)
{
	struct schedstat s;

	return read_schedstat(tid, &s) ? s.slices : 0;
}

uint64_t os_thread_sleeps(int tid)
{
	static const char key[] = "\nvoluntary_ctxt_switches:"; /* in the last lines */
	char text[3072];
	const char *at;

	if (!read_task(tid, "status", text, sizeof(text)) || !(at = strstr(text, key)))
		return 0;
	return strtoull(at + sizeof(key) - 1, NULL, 10);
}

/* System calls that may sleep: name, kind, and 0 if the first argument is a file
 * descriptor, otherwise -1. */
static const struct {
	int nr;
	struct os_call call;
} calls[] = {
	{ SYS_read, { "read()", OS_CALL_STREAM, 0 } },
	{ SYS_write, { "write()", OS_CALL_STREAM, 0 } },
	{ SYS_readv, { "readv()", OS_CALL_STREAM, 0 } },
	{ SYS_writev, { "writev()", OS_CALL_STREAM, 0 } },
	{ SYS_recvfrom, { "recv()", OS_CALL_STREAM, 0 } },
	{ SYS_sendto, { "send()", OS_CALL_STREAM, 0 } },
	{ SYS_recvmsg, { "recvmsg()", OS_CALL_STREAM, 0 } },
	{ SYS_sendmsg, { "sendmsg()", OS_CALL_STREAM, 0 } },
	{ SYS_accept4, { "accept4()", OS_CALL_STREAM, 0 } },
	{ SYS_connect, { "connect()", OS_CALL_STREAM, 0 } },
	{ SYS_pread64, { "pread()", OS_CALL_FILE, 0 } },
	{ SYS_pwrite64, { "pwrite()", OS_CALL_FILE, 0 } },
	{ SYS_fsync, { "fsync()", OS_CALL_FILE, 0 } },
	{ SYS_fdatasync, { "fdatasync()", OS_CALL_OTHER, 0 } },
	{ SYS_flock, { "flock()", OS_CALL_OTHER, 0 } },
	{ SYS_fcntl, { "fcntl()", OS_CALL_OTHER, 0 } },
	{ SYS_ioctl, { "ioctl()", OS_CALL_OTHER, 0 } },
	{ SYS_epoll_pwait, { "epoll_wait()", OS_CALL_POLL, 0 } },
	{ SYS_openat, { "open()", OS_CALL_FILE, -1 } },
	{ SYS_nanosleep, { "nanosleep()", OS_CALL_SLEEP, -1 } },
	{ SYS_clock_nanosleep, { "clock_nanosleep()", OS_CALL_SLEEP, -1 } },
	{ SYS_futex, { "futex()", OS_CALL_LOCK, -1 } },
	{ SYS_ppoll, { "poll()", OS_CALL_POLL, -1 } },
	{ SYS_pselect6, { "select()", OS_CALL_POLL, -1 } },
	{ SYS_wait4, { "wait4()", OS_CALL_CHILD, -1 } },
	{ SYS_waitid, { "waitid()", OS_CALL_CHILD, -1 } },
	{ SYS_rt_sigtimedwait, { "sigtimedwait()", OS_CALL_OTHER, -1 } },
	{ SYS_msgrcv, { "msgrcv()", OS_CALL_OTHER, -1 } },
#ifdef SYS_poll /* newer architectures lack these */
	{ SYS_accept, { "accept()", OS_CALL_STREAM, 0 } },
	{ SYS_epoll_wait, { "epoll_wait()", OS_CALL_POLL, 0 } },
	{ SYS_open, { "open()", OS_CALL_FILE, -1 } },
	{ SYS_poll, { "poll()", OS_CALL_POLL, -1 } },
	{ SYS_select, { "select()", OS_CALL_POLL, -1 } },
	{ SYS_pause, { "pause()", OS_CALL_OTHER, -1 } },
#endif
};

/* Where a sleeping thread has entered the kernel. */
struct entry {
	int nr; /* of the system call; -1: a page fault */
	size_t n;
	uintptr_t word[8]; /* 6 arguments, none of a page fault; the stack pointer and the pc */
};

/* Returns false if the thread runs, and the file has "running", or that is not known. */
static bool read_entry(int tid, struct entry *e)
{
	char text[256], *at;

	if (!read_task(tid, "syscall", text, sizeof(text)))
		return false;
	e->nr = (int)strtol(text, &at, 10);
	for (e->n = 0; e->n < countof(e->word) && *at == ' '; e->n++)
		e->word[e->n] = strtoul(at, &at, 16);
	return e->n >= 2;
}

bool os_thread_call(int tid, struct os_call *call)
{
	struct entry e;

	if (!read_entry(tid, &e))
		return false;
	*call = (struct os_call){ e.nr < 0 ? "a page fault" : "a system call", OS_CALL_OTHER, -1 };
	for (size_t i = 0; i < countof(calls); i++) {
		if (calls[i].nr == e.nr) {
			*call = calls[i].call;
			call->fd = call->fd < 0 ? -1 : (int)e.word[0];
		}
	}
	return true;
}

bool os_thread_entered_at(int tid, uintptr_t *sp, uintptr_t *pc)
{
	struct entry e;

	if (!read_entry(tid, &e))
		return false;
	*sp = e.word[e.n - 2];
	*pc = e.word[e.n - 1];
	return *sp && *pc;
}

/* A write may have moved a part of the data: a signal would make it short.  A call with a mask of
 * signals waits for one of them: if another handler has run, EINTR belongs to that. */
static bool may_begin_again(struct os_sleep *s)
{
	switch (s->nr) {
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_futex:
#ifdef SYS_poll
	case SYS_poll:
	case SYS_select:
	case SYS_epoll_wait:
#endif
		return true;
	case SYS_ppoll: return !s->arg[3];
	case SYS_epoll_pwait: return !s->arg[4];
	case SYS_pselect6: return !s->arg[5];
	case SYS_read:
	case SYS_readv:
	case SYS_accept4:
#ifdef SYS_poll
	case SYS_accept:
#endif
	case SYS_flock:
	case SYS_wait4:
	case SYS_waitid: s->once = true; return true;
	case SYS_recvfrom: s->once = true; return !(s->arg[3] & MSG_WAITALL);
	default: return false;
	}
}

bool os_thread_sleep(int tid, struct os_sleep *s)
{
	struct os_sleep now = { .sleeps = os_thread_sleeps(tid) };
	struct entry e;

	if (!read_entry(tid, &e) || e.n < countof(e.word))
		return false;
	now.nr = e.nr;
	memcpy(now.arg, e.word, sizeof(now.arg));
	now.sp = e.word[6];
	now.pc = e.word[7];
	if (!may_begin_again(&now))
		return false;
	*s = now;
	return true;
}

bool os_fd_name(int fd, char *name, size_t room)
{
	char path[32];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, name, room - 1);
	name[n > 0 ? n : 0] = '\0';
	return n > 0;
}
