/* SPDX-License-Identifier: MIT */
/* State of the process's threads (os_thread_*), from files below /proc/self/task/TID. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os.h"

/* Read the file as text. Returns false if it is empty or cannot be read. */
static bool read_task(int tid, const char *name, char *text, size_t room)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/%s", tid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, room - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
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

bool os_thread_call(int tid, struct os_call *call)
{
	unsigned long first;
	char text[256];
	int nr;

	/* "running", "-1 ..." for a page fault, or the number and the arguments */
	if (!read_task(tid, "syscall", text, sizeof(text)) ||
	    sscanf(text, "%d %lx", &nr, &first) != 2)
		return false;
	*call = (struct os_call){ nr < 0 ? "a page fault" : "a system call", OS_CALL_OTHER, -1 };
	for (size_t i = 0; i < countof(calls); i++) {
		if (calls[i].nr == nr) {
			*call = calls[i].call;
			call->fd = call->fd < 0 ? -1 : (int)first;
		}
	}
	return true;
}

bool os_thread_entered_at(int tid, uintptr_t *sp, uintptr_t *pc)
{
	char text[256], *last, *before;

	/* the last two words; "running": there are none */
	if (!read_task(tid, "syscall", text, sizeof(text)) || !(last = strrchr(text, ' ')))
		return false;
	*last = '\0';
	before = strrchr(text, ' ');
	if (!before)
		return false;
	*sp = strtoul(before, NULL, 16);
	*pc = strtoul(last + 1, NULL, 16);
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
	char text[256];

	if (!read_task(tid, "syscall", text, sizeof(text)) ||
	    sscanf(text,
		   "%d %" SCNxPTR " %" SCNxPTR " %" SCNxPTR " %" SCNxPTR " %" SCNxPTR " %" SCNxPTR
		   " %" SCNxPTR " %" SCNxPTR,
		   &now.nr, &now.arg[0], &now.arg[1], &now.arg[2], &now.arg[3], &now.arg[4],
		   &now.arg[5], &now.sp, &now.pc) != 9 ||
	    !may_begin_again(&now))
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
