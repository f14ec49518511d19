/* SPDX-License-Identifier: MIT */
/*
 * Child processes: start a program with pipes and the program's own signal mask, wait for its end.
 *
 * fork, exec, system and posix_spawn may also be called from a green thread:
 * docs/api/signals-and-fork.md.
 */
#ifndef GMPRT_PROCESS_H
#define GMPRT_PROCESS_H

#include "base.h"
#include "time.h" /* gmp_deadline */

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * gmp_waitpid - waitpid(2)
 *
 * pid, status, flags  as for waitpid(2); status may be NULL
 *
 * A wait for the end of one child (pid > 0, flags 0) is a wait for a descriptor, and cancellation
 * cuts it short. A wait for any child (-1, 0, a group), or with WUNTRACED and the like, occupies an
 * OS thread as blocking code does. A tracer calls waitpid itself, in blocking code: it waits for
 * more than the child's end.
 *
 * Returns the pid of a child whose state changed, with *status set; 0 only with WNOHANG in flags.
 * Errors:
 *   -ECHILD, -EINVAL  as waitpid(2)
 *   -ECANCELED  the calling green thread was cancelled
 *   -ESRCH      no runtime, or it stops during the wait
 */
GMP_API pid_t gmp_waitpid(pid_t pid, int *status, int flags);

/*
 * gmp_waitpid_until - wait for a child process, or give up at a deadline
 *
 * pid, status, flags  as for waitpid(2); status may be NULL
 * deadline            nanoseconds on the clock of gmp_now(). A deadline in the past makes one
 *                     attempt. GMP_FOREVER waits indefinitely but can be cancelled, also where
 *                     gmp_waitpid cannot.
 *
 * The end of one child (pid > 0, flags 0) wakes the caller at once. Any other wait asks the kernel
 * again after 1, 2, 4 ms and then every 16 ms, and reports a change late by as much.
 *
 * Returns the pid of a child whose state changed, with *status set; 0 only with WNOHANG in flags.
 * Errors, *status untouched and no child reaped:
 *   -ETIMEDOUT  the deadline passed
 *   -ECANCELED  the calling green thread was cancelled (reported before -ETIMEDOUT)
 *   -ECHILD, -EINVAL  as waitpid(2)
 *   -ESRCH      no runtime, or it stops during the wait
 */
GMP_API pid_t gmp_waitpid_until(pid_t pid, int *status, int flags, int64_t deadline);

/*
 * A standard stream of a child, by `kind`:
 *   GMP_PROCESS_INHERIT  the caller's; the meaning of a zeroed struct
 *   GMP_PROCESS_NULL     /dev/null
 *   GMP_PROCESS_PIPE     a pipe, whose other end gmp_process_spawn gives to the caller
 *   GMP_PROCESS_FD       a duplicate of `fd`, which stays the caller's. A descriptor that gmp knows
 *                        is non-blocking, and so is the duplicate.
 *   GMP_PROCESS_STDOUT   for err only: where out goes
 */
enum {
	GMP_PROCESS_INHERIT,
	GMP_PROCESS_NULL,
	GMP_PROCESS_PIPE,
	GMP_PROCESS_FD,
	GMP_PROCESS_STDOUT
};
typedef struct gmp_process_stream {
	int kind;
	int fd; /* of GMP_PROCESS_FD */
} gmp_process_stream;

/* For gmp_process_opts.flags. */
enum {
	GMP_PROCESS_SEARCH = 1, /* a file name without a slash is looked up in the caller's PATH */
	/* a process group of its own: kill(-pid, signo) reaches its children */
	GMP_PROCESS_GROUP = 2,
	GMP_PROCESS_SESSION = 4, /* a session of its own, without a controlling terminal */
	/* close all descriptors from 3 on, also those without FD_CLOEXEC; needs glibc 2.34 */
	GMP_PROCESS_CLOSE = 8
};

/* What gmp_process_spawn starts. */
typedef struct gmp_process_opts {
	size_t size;             /* set by GMP_PROCESS_OPTS_INIT */
	const char *const *argv; /* arguments from the program's name on, NULL at the end */
	const char *file;        /* the program; NULL: argv[0] */
	const char *const *envp; /* environment, NULL at the end; NULL: the caller's */
	const char *cwd; /* working directory, from which a relative `file` counts; NULL: the
	                    caller's */
	gmp_process_stream in, out, err;
	unsigned flags; /* GMP_PROCESS_SEARCH ... */
} gmp_process_opts;
#define GMP_PROCESS_OPTS_INIT GMP_SIZED_INIT_(gmp_process_opts)

/* A child process. */
typedef struct gmp_process {
	pid_t pid;
	int pidfd;        /* readable when the child has ended; -1: the system gives none */
	int in, out, err; /* the caller's ends of the pipes; -1: not asked for */
} gmp_process;

/*
 * gmp_process_spawn - start a child process
 *
 * p     is filled on success. The descriptors in it are gmp's: gmp_read, gmp_write, gmp_fd_wait,
 *       gmp_close. Wait for the child by gmp_waitpid or gmp_waitpid_until; without such a wait it
 *       stays a zombie.
 * opts  what to start; what it points to is not used after the call
 *
 * The child has the signal mask of the thread that called gmp_run or gmp_start, whatever thread
 * calls this; no signal handlers; SIGPIPE at its default; other signals that the program ignores
 * stay ignored. It gets the descriptors 0 to 2 as `opts` says and those of the program without
 * FD_CLOEXEC. All that gmp opens have it.
 *
 * Returns 0: the program has been executed.
 * Errors, with no child left:
 *   -ENOENT   there is no such program; or argv[0] or file is a name without a slash and
 *             GMP_PROCESS_SEARCH is not set, so that the name counts from cwd, and PATH is not
 *             searched; or the interpreter of a script is missing; or there is no directory cwd
 *   -EACCES, -ENOEXEC ...  the program cannot be executed, or cwd cannot be entered
 *   -EBADF    the fd of a GMP_PROCESS_FD is not open (a negative one: -EINVAL)
 *   -EMFILE, -ENFILE, -ENOMEM, -ENOSPC, -EAGAIN  the system refuses a descriptor, memory or a
 *                                                process
 *   -EINVAL   p, opts or argv is NULL, argv is empty, opts->size is 0, an unknown kind or flag
 *   -E2BIG    the arguments are too long, or opts sets a field that this version does not know
 *   -ENOTSUP  GMP_PROCESS_CLOSE where libc cannot
 *   -ESRCH    no runtime
 *
 * Threads: any. Starting the program counts as blocking code; cancellation does not cut it short.
 * If shutdown kills the caller during the call, its descriptors are closed, but the child may run.
 *
 * Example:
 *   static void feed(void *p)
 *   {
 *           gmp_process *child = p;
 *
 *           gmp_write_all(child->in, "2\n1\n", 4);
 *           gmp_close(child->in);
 *           child->in = -1;                         // gmp_process_close must not close it again
 *   }
 *
 *   static void app(void *arg)
 *   {
 *           const char *argv[] = { "sort", "-n", NULL };
 *           gmp_process_opts o = GMP_PROCESS_OPTS_INIT;
 *           gmp_process p;
 *           char out[16];
 *           int status;
 *           gmp_g *writer;
 *
 *           (void)arg;
 *           o.argv = argv;
 *           o.flags = GMP_PROCESS_SEARCH;
 *           o.in.kind = o.out.kind = GMP_PROCESS_PIPE;
 *           assert(gmp_process_spawn(&p, &o) == 0);             // -ENOENT: there is no sort
 *           gmp_spawn(&writer, feed, &p, NULL);                 // at the same time as the read:
 *           assert(gmp_read_full(p.out, out, sizeof(out)) == 4);    // both pipes may be full
 *           assert(memcmp(out, "1\n2\n", 4) == 0);
 *           gmp_join(writer);
 *           gmp_process_close(&p);
 *           assert(gmp_waitpid(p.pid, &status, 0) == p.pid && status == 0);
 *   }
 */
GMP_API int gmp_process_spawn(gmp_process *p, const gmp_process_opts *opts);

/*
 * gmp_process_close - close the descriptors of a gmp_process
 *
 * p  NULL is a no-op. Closes in, out, err and pidfd as far as they are not -1, and sets them to -1.
 *    Set a descriptor that you have closed yourself to -1: its number may be in use again.
 *
 * It neither waits for the child nor ends it.
 */
GMP_API void gmp_process_close(gmp_process *p);

#ifdef __cplusplus
}
#endif

#endif
