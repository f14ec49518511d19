/* SPDX-License-Identifier: MIT */
/*
 * What does the runtime ask of the operating system?  Everything that it asks stands here, so that
 * a port is one more os_*.c, and a test can make any of it fail.  Errors are negative errno values.
 */
#ifndef GMP_OS_H
#define GMP_OS_H

#include <errno.h>
#include <pthread.h>
#include <sys/types.h>

#include "base/base.h"

/* --- time and CPU --- */
int64_t os_now(void);      /* monotonic, ns */
int64_t os_cpu_time(void); /* of the calling thread, ns; a system call */
void os_yield(void);       /* give the CPU away */
void os_nap(int64_t ns);   /* sleep, roughly */
int os_cpus_online(void);  /* CPUs of this process's affinity, read once */
int os_cpus_allowed(void); /* the same, capped by the cgroup's quota, read anew */
uint64_t os_random(void);

/* --- memory: address space first, pages when touched --- */
/* Zeroed, not counted against overcommit, and not populated in a process that locks its memory; locked on
 * fault there unless RLIMIT_MEMLOCK binds.  NULL on failure. */
void *os_reserve(size_t bytes);
void *os_reserve_unlocked(size_t bytes, bool *locks); /* *locks: see os_locks_memory */
bool os_locks_memory(void);                     /* new mappings are locked: mlockall(MCL_FUTURE) */
bool os_lock_limited(void);                     /* RLIMIT_MEMLOCK binds this process */
int os_lock_on_fault(void *addr, size_t bytes); /* pages are locked when they are touched */
void os_release(void *addr, size_t bytes);
void os_discard(void *addr, size_t bytes); /* give the pages back; they read as zero again */
bool os_resident(void *addr, size_t bytes, unsigned char *vec); /* one byte a page, bit 0 */
int os_max_maps(void); /* how many mappings a process may have */
/* A guard: touching it is SIGSEGV.  light guards split no mapping (Linux >= 6.13). */
int os_guard_light(void *addr, size_t bytes);
int os_guard_protect(void *addr, size_t bytes);

/* --- descriptors --- */
/* Switch O_NONBLOCK: 1 if it was otherwise before, 0, or -errno. */
int os_nonblock(int fd, bool on);
/* Which of its reads (1) and writes (2) ask the disk each time: O_DIRECT, O_SYNC.  Of the flags of an open,
 * and of a descriptor. */
unsigned os_flags_to_disk(int flags);
unsigned os_to_disk(int fd);
bool os_is_open(int fd);
/* Descriptors of the runtime's own have numbers from os_fd_raised() on: above those of most programs, below 1024 and
 * below the limit.  os_fd_raise moves one there and returns its new number, or fd if none is free. */
int os_fd_raised(void);
int os_fd_raise(int fd);
/* Of a socket: whether it has datagrams, and whether connections come to it, by a unix path. */
void os_socket_kind(int fd, bool *datagrams, bool *unix_listener);
/* Leave a mark on an open file that cannot be polled: the signal that tells of its readiness, of which there is
 * none.  True: it was there (or it is another's). */
bool os_mark(int fd);
/* Which file it is: never 0, and seldom another's too. */
uint64_t os_file_id(int fd);
/* The same of a file that is stored somewhere; 0: of none, or of one that the kernel may make up as it is read,
 * as in /proc and /sys. */
uint64_t os_stored_file_id(int fd);

/*
 * Around a system call that raises SIGPIPE and cannot be told not to: it never reaches the program.  The thread
 * blocks the signal for the call, and if the call may have raised it, the signal is taken back, unless one was
 * pending before.  An M does this only if a SIGPIPE has an effect (os_sigpipe_trust).
 */
struct os_sigpipe {
	bool pending; /* one stands already: another changes nothing */
	bool unblock; /* it was not blocked before */
};
void os_sigpipe_hold(struct os_sigpipe *s);
/* harmless: a SIGPIPE of an M does nothing (faultsig.c), so its writes need not block it. */
void os_sigpipe_trust(bool harmless);
void os_sigpipe_drop(const struct os_sigpipe *s, bool raised);
/* May a call have raised it that came to `result`, bytes or -errno, of `asked` bytes?  One that says EPIPE has;
 * and one that did a part: sendfile to a socket whose peer has gone sends the first pages, raises SIGPIPE at
 * the next ones, and says how much the first were. */
static inline bool os_sigpipe_due(ssize_t result, size_t asked)
{
	return result == -EPIPE || (result >= 0 && (size_t)result < asked);
}

/* --- a descriptor that messages go to, whatever it is --- */
struct os_sink {
	int fd;
	enum {
		SINK_PLAIN,  /* a write returns soon, or says EAGAIN itself */
		SINK_SOCKET, /* each call can be told not to sleep; no SIGPIPE */
		SINK_PIPE,   /* likewise, on new kernels */
		SINK_ASKED,  /* poll first: a write may sleep all the same if others write too */
	} how;
};
/* 0 or -errno; -EBADF also for one that is open for reading only. */
int os_sink(struct os_sink *s, int fd);
/* One write of 0 < n <= PAGE bytes that does not sleep: bytes, -EAGAIN for no room, -errno. */
int os_sink_write(struct os_sink *s, const void *buf, size_t n);
/* Wait ns at most until there is room, or an error awaits: true. */
bool os_sink_ready(const struct os_sink *s, int64_t ns);

/* Copy n bytes of this process's memory from `at`, which need not be mapped. False: it is not, or the
 * system does not let us look. Async-signal-safe. */
bool os_peek(uintptr_t at, void *buf, size_t n);

/* --- signals: this thread's mask, in bits signo - 1 --- */
void os_mask(uint64_t block, uint64_t unblock);
struct sigaction;
/* sigaction(2), -errno.  Under ThreadSanitizer the handler is called at once as everywhere else, not when the
 * thread next calls libc, which a green thread that has parked may never do; it is to be `unsanitized`,
 * and so are those it calls.  What either call says of a handler is not for the other. */
int os_sigaction(int signo, const struct sigaction *sa, struct sigaction *old);

/* --- threads --- */
int os_thread_start(pthread_t *t, void *(*fn)(void *), void *arg, size_t stack_size);

/* Bytes of the calling thread's stack below the caller's frame; SIZE_MAX if not known, as on a stack that the
 * program made itself.  Of the main thread: RLIMIT_STACK. */
size_t os_stack_left(void);
int os_thread_id(void);
bool os_thread_exists(int tid);           /* of this process */
int os_thread_signal(int tid, int signo); /* 0 or -errno; si_code is SI_QUEUE */
int os_thread_count(void);     /* threads of this process now; io_uring's workers left out */
int os_thread_count_max(void); /* the same, io_uring's workers counted too; takes no descriptor */
/* What the kernel says that a thread of ours does: 'R' it runs or could, 'S' it sleeps in a system call,
 * 'D' it waits for a disk or for memory; 0: not known. */
char os_thread_state(int tid);
/* ns for which a thread of ours has had a CPU; for which it was runnable without one, up to the last time
 * that it got one (-1: the kernel does not say). */
int64_t os_thread_cpu_time(int tid);
int64_t os_thread_delay(int tid);
/* How often a thread of ours was given a CPU; 0 if that cannot be told. */
uint64_t os_thread_slices(int tid);
/* The system call in which a thread of ours sleeps; false: in none, or not known. */
struct os_call {
	const char *name; /* "read()" */
	enum {
		OS_CALL_OTHER,
		OS_CALL_STREAM, /* on a socket or pipe: gmp.h has a call of that name */
		OS_CALL_FILE,   /* on a file: likewise */
		OS_CALL_SLEEP,
		OS_CALL_LOCK,
		OS_CALL_POLL,
		OS_CALL_CHILD,
	} kind;
	int fd; /* its first argument; -1: that is none */
};
bool os_thread_call(int tid, struct os_call *call);
/* What an fd is, as "pipe:[1234]" or a path; false if that cannot be told. */
bool os_fd_name(int fd, char *name, size_t room);
/* This thread's sleeps may end so many ns late, to save power; 0: as many as at its start.  Returns what it
 * was before, 0 if that cannot be told. */
int os_timer_slack(int ns);
int os_timer_slack_now(void); /* the same, unchanged */
/* Sleep while *addr == val, until the deadline (NEVER: none): 0 or -ETIMEDOUT; may wake early. */
int os_futex_wait(uint32_t *addr, uint32_t val, int64_t deadline);
void os_futex_wake(uint32_t *addr, int n);
/* A full barrier in every running thread of the process: the heavy side of fence_light(). */
bool os_membarrier_init(void);
void os_membarrier(void);

#endif
