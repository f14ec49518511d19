/* SPDX-License-Identifier: MIT */
/*
 * Operating-system interface: all services that the runtime uses.
 *
 * A port adds an os_*.c. A test can make any of these functions fail. Errors are negative errno
 * values. Only functions whose comment says so may be called in a signal handler.
 */
#ifndef GMP_OS_H
#define GMP_OS_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/types.h>

#include "base/base.h"

/* The result of a system call, repeated while signals interrupt it; -errno if it fails. */
#define os_retry(call)                                                                             \
	__extension__({                                                                            \
		__typeof__(call) retry_result;                                                     \
		do                                                                                 \
			retry_result = (call);                                                     \
		while (retry_result < 0 && errno == EINTR);                                        \
		retry_result < 0 ? -errno : retry_result;                                          \
	})

/* --- time and CPU --- */
int64_t os_now(void);       /* monotonic, ns */
int64_t os_real_now(void);  /* since 1970, ns */
int64_t os_cpu_time(void);  /* of the calling thread, ns; a system call */
void os_yield(void);        /* yield the CPU */
void os_nap(int64_t ns);    /* sleep for about ns; a signal may end it early; keeps errno */
int os_cpus_affinity(void); /* CPUs in the affinity mask of the process */
int os_cpus_online(void);   /* the same, read once */
int os_cpus_allowed(void);  /* the same, limited by the cgroup's quota; read at each call */
uint64_t os_random(void);

/* --- memory: reserves address space; a page takes memory once it is touched --- */
/* Returns zeroed memory that does not count against overcommit, or NULL. If the process locks its
 * memory, it is not populated, and each page is locked on its first touch, unless RLIMIT_MEMLOCK
 * limits the process. The caller frees it by os_release. */
void *os_reserve(size_t bytes);
void *os_reserve_unlocked(size_t bytes,
			  bool *locks); /* without the lock; *locks: os_locks_memory */
bool os_locks_memory(void);             /* new mappings are locked: mlockall(MCL_FUTURE) */
bool os_lock_limited(void);             /* RLIMIT_MEMLOCK limits this process */
/* Pages are locked when they are touched. Returns 0, -ENOSYS if the system cannot do that: the
 * pages stay unlocked; another -errno. */
int os_lock_on_fault(void *addr, size_t bytes);
void os_release(void *addr, size_t bytes); /* NULL: no effect */
/* Releases a part, other than the first pages: os_release of these frees more. */
void os_release_part(void *addr, size_t bytes);
void os_discard(void *addr, size_t bytes); /* give the pages back; they read as zero again */
bool os_resident(void *addr, size_t bytes, unsigned char *vec); /* one byte per page, bit 0 */
int os_max_maps(void);                                          /* limit of mappings per process */
/* Guards: an access raises SIGSEGV. A light guard splits no mapping (Linux >= 6.13). */
int os_guard_light(void *addr, size_t bytes);
int os_guard_protect(void *addr, size_t bytes);
/* Return whether the kernel, too, cannot read the aligned word at addr: checks that a guard has an
 * effect. Some kernels and emulators answer success to an madvise that they do not know. */
bool os_faults(const void *addr);

/* --- file descriptors --- */
/* Set or clear O_NONBLOCK. Returns 1 if that changed it, 0 if not, or -errno. */
int os_nonblock(int fd, bool on);
/* Return which operations access the disk at each call (O_DIRECT, O_SYNC): 1 reads, 2 writes. From
 * the flags of an open, and from a file descriptor. */
unsigned os_flags_to_disk(int flags);
unsigned os_to_disk(int fd);
bool os_is_open(int fd);
/* The runtime's file descriptors have numbers from os_fd_raised() on: above those of most programs,
 * below 1024 and below the limit. os_fd_raise moves fd there and returns the new number; if no
 * number is free, it returns fd. */
int os_fd_raised(void);
int os_fd_raise(int fd);
/* The runtime's own file descriptors: libgmprt_posix does not let the program close them (CLOSE-2),
 * and the child of a fork closes them (run/fork.c). Enter one after its open, and remove it before
 * its close. Numbers from 1024 on are not kept. */
void os_fd_set_own(int fd, bool own);
bool os_fd_is_own(int fd);
/* The lowest of these numbers from `from` on, or -1. */
int os_fd_next_own(unsigned from);
/* Of a socket: whether it transfers datagrams, and whether it is a unix socket that listens. */
void os_socket_kind(int fd, bool *datagrams, bool *unix_listener);
/* Of a socket: its id, which no other socket has had (before Linux 5.4: none of its network
 * namespace); 0: fd is no socket, or the system has no ids. */
uint64_t os_socket_id(int fd);
/* Mark the open file of fd, which cannot be polled, by the number of its readiness signal, which it
 * never sends. Returns true if the mark (or the program's own signal number) was set already. */
bool os_mark(int fd);
/* Return a hash of the identity of the file: never 0; two files seldom share it. */
uint64_t os_file_id(int fd);
/* The same for a regular file with blocks on a disk; 0 for all others, also for files whose
 * contents the kernel generates, as in /proc and /sys. */
uint64_t os_stored_file_id(int fd);

/*
 * Keep SIGPIPE from the program, around a system call that raises it and has no flag against that.
 * The thread blocks the signal for the call. If the call may have raised it, os_sigpipe_drop
 * consumes the signal, unless one was pending before. An M does this only if a SIGPIPE has an
 * effect (os_sigpipe_trust).
 */
struct os_sigpipe {
	bool pending; /* a SIGPIPE was pending before the call; a second one changes nothing */
	bool unblock; /* the thread had not blocked it before */
};
void os_sigpipe_hold(struct os_sigpipe *s);
/* harmless: a SIGPIPE on an M has no effect (monitor/faultsig.c), so its writes need not block it.
 * */
void os_sigpipe_trust(bool harmless);
void os_sigpipe_drop(const struct os_sigpipe *s, bool raised);
/* Return whether a call may have raised it. result: its bytes or -errno; asked: the bytes to
 * transfer. -EPIPE implies it. A partial transfer may imply it: if the peer of a socket has closed,
 * sendfile sends the first pages, raises SIGPIPE at the next ones, and returns the first ones. */
static inline bool os_sigpipe_due(ssize_t result, size_t asked)
{
	return result == -EPIPE || (result >= 0 && (size_t)result < asked);
}

/* A pipe, close-on-exec; a write without room returns -EAGAIN. Returns 0 or -errno. */
int os_pipe(int fds[2]);
/* Create or truncate a file for writing, for this opening of it alone until it is closed. Returns
 * its fd or -errno: -EBUSY if another opening has it, also one of another process. Its contents are
 * unchanged then. A FIFO or a device is not locked, and does not block: -ENXIO without a reader;
 * a write without room returns -EAGAIN. */
int os_create_file(const char *path);
/* Unlock and close the file.  A close alone unlocks it only when all copies of fd are closed, also
 * that of a child process between fork and exec. */
void os_close_file(int fd);
bool os_is_stream(int fd); /* open, and no regular file */
/* What the peer of a connected socket has done: nothing; it will send no more; it has closed its
 * socket and no answer can reach it, or fd is no socket. */
enum os_peer { OS_PEER_THERE, OS_PEER_SILENT, OS_PEER_GONE };
enum os_peer os_peer(int fd);
/* Read the first room - 1 bytes of a file as text, with one read. Returns false if it is empty or
 * cannot be read; the text is then "". */
bool os_read_text(const char *path, char *text, size_t room);

/* --- a file descriptor of any kind that messages are written to --- */
struct os_sink {
	int fd;
	enum {
		SINK_PLAIN,  /* a write returns soon, or fails with EAGAIN */
		SINK_SOCKET, /* a flag of the call keeps it from sleeping and from SIGPIPE */
		SINK_PIPE,   /* a flag keeps it from sleeping, on new kernels */
		SINK_LOCKED, /* a pipe without that flag: poll and write under a lock (SINK-1) */
		SINK_ASKED,  /* poll first; a write may still sleep if other threads write too */
	} how;
};
/* Returns 0 or -errno; -EBADF also if fd is open for reading only. */
int os_sink(struct os_sink *s, int fd);
/* One write of 0 < n <= PAGE bytes, without sleeping (but see SINK-1 in os_sink.c).  Returns bytes;
 * -EAGAIN without room; 0 if another thread writes to a pipe: there may be room, try again later;
 * -errno. Not for signal
 * handlers: a handler may have interrupted the write that it would wait for. */
int os_sink_write(struct os_sink *s, const void *buf, size_t n);
/* Wait at most ns until the sink has room, or an error. Returns false after a timeout. */
bool os_sink_ready(const struct os_sink *s, int64_t ns);
void os_sinks_forget(void); /* the child of a fork */
/* One write of n bytes to a pipe.  Returns bytes, -EAGAIN without room, -ENOSYS if the system
 * cannot keep the call from sleeping, -errno.  Only os_sink.c calls it. */
int os_pipe_write(int fd, const void *buf, size_t n);

/* Copy n bytes from address `at` of this process. Returns false if that is not mapped, or the
 * system forbids the read. Async-signal-safe. */
bool os_peek(uintptr_t at, void *buf, size_t n);
/* The same through a pipe, which needs two free file descriptors.  Only os_peek calls it. */
bool os_peek_by_pipe(uintptr_t at, void *buf, size_t n);

/* --- signals: this thread's mask, in bits signo - 1 --- */
void os_mask(uint64_t block, uint64_t unblock);
struct sigaction;
/* sigaction(2); returns 0 or -errno. Also under ThreadSanitizer the handler runs at once:
 * ThreadSanitizer would defer it until the thread calls libc, which may never happen after a
 * switch. So the handler, and all functions that it calls, must be `unsanitized`. A handler that
 * was set by this function must not be queried by sigaction(2), nor the other way round. */
int os_sigaction(int signo, const struct sigaction *sa, struct sigaction *old);
/* Return whether the handler, which os_sigaction has set, is still that of the signal. */
bool os_handler_is(int signo, void (*handler)(int signo));

/* Signals by which the kernel reports a fault to the OS thread that has caused it. */
static inline bool is_fault_signal(int signo)
{
	switch (signo) {
	case SIGSEGV:
	case SIGBUS:
	case SIGFPE:
	case SIGILL:
	case SIGTRAP:
	case SIGSYS: return true;
	default: return false;
	}
}

/* --- threads --- */
/* Start a thread of the runtime, which counts as one until fn returns.  It writes its id to *tid
 * before fn is called; tid may be NULL.  Returns 0 or -errno. */
int os_thread_start(pthread_t *t, void *(*fn)(void *), void *arg, size_t stack, int *tid);
/* Returns true if a thread has been started, or is being started, that has not written its id. */
bool os_threads_begin(void);
/* The same without the count: a thread that may wake Gs by itself, as external threads do. */
int os_thread_create(pthread_t *t, void *(*fn)(void *), void *arg, size_t stack_size);
/* The same with the signal mask of the caller: for os_thread_create. */
int os_thread_make(pthread_t *t, void *(*fn)(void *), void *arg, size_t stack_size);
/* The calling thread, which os_thread_start has made, counts as a thread of the runtime or not.
 * Async-signal-safe. */
void os_thread_count_self(bool on);
/* In how many ns to count again: as long as it is since a thread of the runtime was last started,
 * began or ended, at least 1 ms and at most 1 s.  A thread that begins or ends is not counted. */
int64_t os_thread_recount_ns(void);
/* In the child of a fork, which has none of them. */
void os_thread_forget_counted(void);
/* Set by libgmprt_posix, on Linux alone: these threads begin with all signals blocked.  Ms then get
 * the program's mask, when a signal handler can recognize them. */
extern bool os_threads_block_signals;
/* Linux: block all signals of the calling thread, except those of libc.  Returns the mask. */
uint64_t os_signals_block(void);
void os_signals_restore(uint64_t before);

/* Return the bytes of the calling thread's stack below the caller's frame; on the main thread
 * RLIMIT_STACK; SIZE_MAX if not known, as on a stack that the program allocated. */
size_t os_stack_left(void);
/* Return whether the CPU checks the return addresses of the calling thread against a shadow stack;
 * false if that is not known. New threads inherit it. */
bool os_shadow_stack(void);
int os_thread_id(void);
bool os_thread_exists(int tid);           /* of this process */
int os_thread_signal(int tid, int signo); /* 0 or -errno */
extern const int os_thread_signal_code;   /* si_code of the signals that it sends */
int os_thread_count(void);     /* threads of this process now, without io_uring's workers */
int os_thread_count_max(void); /* the same with io_uring's workers; needs no file descriptor */
/* Threads of this process that do not count as threads of the runtime; `exact` as os_thread_count,
 * otherwise as os_thread_count_max.  May be too many, not too few. */
int os_thread_count_others(bool exact);
/* The state of a thread of this process: 'R' running or runnable, 'S' sleeping in a system call,
 * 'D' waiting for a disk or for memory; 0 not known. */
char os_thread_state(int tid);
static inline bool os_thread_is_asleep(int tid)
{
	char state = os_thread_state(tid);

	return state == 'S' || state == 'D';
}
/* Times of a thread of this process in ns: on a CPU; runnable without a CPU, until it last got one
 * (-1: not known). */
int64_t os_thread_cpu_time(int tid);
int64_t os_thread_delay(int tid);
/* Ask the kernel's scheduler to run a thread of this process (0: the caller) for ns at a time, 0.1
 * to 100 ms; 0: the kernel's default.  A short slice begins sooner after a wakeup.  No effect
 * before Linux 6.12, without permission, and on threads of a real-time policy.  Keeps errno. */
void os_thread_slice(int tid, int64_t ns);
enum { OS_SLICE_SHORT = 100 * US };
/* Return how often a thread of this process got a CPU; 0 if not known. */
uint64_t os_thread_slices(int tid);
/* Return how often a thread of this process went to sleep; 0 if not known. */
uint64_t os_thread_sleeps(int tid);
/* A timer of the CPU time of a thread of this process: sends the thread signo after `first` ns of
 * it, and then every ns. Returns the number of the timer, which os_timer_end frees, or
 * -errno. */
int os_cpu_timer_begin(int tid, int signo, int64_t first, int64_t ns);
/* The same of real time; the first signal comes at once.  On Linux only. */
int os_timer_begin(int tid, int signo, int64_t ns);
void os_timer_end(int timer);
uint64_t os_own_sleeps(void); /* the same of this thread; in a signal handler, too */
/* The system call in which a thread of this process sleeps. Returns false if it sleeps in none, or
 * that is not known. */
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
	int fd; /* its first argument; -1: the call has no file descriptor there */
};
bool os_thread_call(int tid, struct os_call *call);
/* The stack pointer and the pc at which a sleeping thread of this process has entered the kernel.
 * Returns false if it does not sleep, or that is not known. */
bool os_thread_entered_at(int tid, uintptr_t *sp, uintptr_t *pc);
/* A system call in which a thread of this process sleeps, and that can be begun again if a signal
 * ends it: it returns EINTR then, and has done nothing. Returns false if it sleeps in no such call,
 * or that is not known. */
struct os_sleep {
	int nr;                   /* -1: none */
	bool once;                /* begin it again in this very sleep only: it transfers data */
	uintptr_t arg[6], sp, pc; /* its arguments; where it was entered */
	uint64_t sleeps;          /* os_thread_sleeps */
};
bool os_thread_sleep(int tid, struct os_sleep *s);
/* Write what fd refers to, as "pipe:[1234]" or a path. Returns false if not known. */
bool os_fd_name(int fd, char *name, size_t room);
/* Allow the sleeps of this thread to end ns late, to save power; 0: the value at its start. Returns
 * the former value, 0 if not known. */
int os_timer_slack(int ns);
int os_timer_slack_now(void); /* the same, unchanged */
/* Sleep while *addr == val, until the deadline (NEVER: none). Returns 0, also after a spurious
 * wakeup, or -ETIMEDOUT. */
int os_futex_wait(uint32_t *addr, uint32_t val, int64_t deadline);
void os_futex_wake(uint32_t *addr, int n);
/* A full fence in every running thread of the process: the heavy side of fence_light(). */
bool os_membarrier_init(void);
void os_membarrier(void);

#endif
