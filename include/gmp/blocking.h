/* SPDX-License-Identifier: MIT */
/*
 * Blocking code: sections that sleep in the kernel or compute for long without gmp's knowledge.
 *
 * Such a section is a library that waits by itself, a disk access, a compression. The green thread
 * keeps its OS thread, and its P goes to another OS thread if the section lasts (as Go does around
 * system calls).
 */
#ifndef GMPRT_BLOCKING_H
#define GMPRT_BLOCKING_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * gmp_block_enter - begin blocking code
 *
 * Sections nest. Until gmp_block_leave the caller counts as an external thread: gmp_self() is NULL,
 * and calls that wait sleep in the kernel. errno is as in any C program. Cancellation does not end
 * the section. At the end of a run gmp_run waits for the green threads in blocking code. To end the
 * green thread in the section, by return or gmp_exit, is misuse.
 *
 * Hand-off of the P: if other green threads need it, sysmon hands it to another OS thread after
 * about 20 us (10 ms if no section was long before); in any case after 10 ms. If a call of
 * gmp_block_enter usually begins a section of more than 20 us, the P is handed off at once if it
 * has work. Each long section occupies one OS thread of gmp_config.max_threads: if all of these are
 * in blocking code, the other green threads wait.
 *
 * Cost: a short section costs nanoseconds.
 *
 * On an external thread: no effect.
 *
 * Example:
 *   static void app(void *arg)
 *   {
 *           struct timespec t = { 0, 1000000 };
 *
 *           (void)arg;
 *           gmp_block_enter();
 *           nanosleep(&t, NULL);
 *           gmp_block_leave();
 *
 *           DIR *d = gmp_blocking(opendir("/"));
 *           int fd = gmp_blocking_sys(open("/no/such/file", O_RDONLY));
 *
 *           assert(d && fd == -ENOENT);             // in place of -1 and errno
 *           closedir(d);
 *   }
 */
GMP_API void gmp_block_enter(void);

/*
 * gmp_block_leave - end blocking code
 *
 * At the end of the outermost section the green thread takes back its P. If that is taken, it takes
 * the P of a green thread that is in a long section, or an idle P; otherwise it waits in the global
 * queue. The call is a checkpoint (gmp_checkpoint).
 *
 * On an external thread, and without a gmp_block_enter: no effect.
 */
GMP_API void gmp_block_leave(void);

/*
 * gmp_blocking(expr): the value of expr, evaluated in blocking code. In C++ an exception may leave
 * expr.
 *
 * gmp_blocking_sys(expr): the same for a call that sets errno: -errno if expr is -1, read before
 * the OS thread can change.
 */
#ifdef __cplusplus
extern "C++" {
struct gmp_blocking_ {
	gmp_blocking_()
	{
		gmp_block_enter();
	}
	~gmp_blocking_()
	{
		gmp_block_leave();
	}
};
}
#define gmp_blocking(expr)                                                                         \
	(__extension__({                                                                           \
		gmp_blocking_ gmp_section_;                                                        \
		(expr);                                                                            \
	}))
#define gmp_blocking_sys(expr)                                                                     \
	(__extension__({                                                                           \
		gmp_blocking_ gmp_section_;                                                        \
		__typeof__(expr) gmp_value_ = (expr);                                              \
		gmp_value_ == (__typeof__(expr))-1 ? (__typeof__(expr))-*gmp_errno_here()          \
						   : gmp_value_;                                   \
	}))
#else
static __inline__ __attribute__((__unused__)) void gmp_blocking_leave_(const char *section)
{
	(void)section;
	gmp_block_leave();
}
#define gmp_blocking(expr)                                                                         \
	(__extension__({                                                                           \
		__attribute__((__cleanup__(gmp_blocking_leave_), __unused__)) char gmp_section_;   \
		gmp_block_enter();                                                                 \
		(expr);                                                                            \
	}))
#define gmp_blocking_sys(expr)                                                                     \
	(__extension__({                                                                           \
		gmp_block_enter();                                                                 \
		__typeof__(expr) gmp_value_ = (expr);                                              \
		if (gmp_value_ == (__typeof__(expr))-1)                                            \
			gmp_value_ = (__typeof__(expr))-*gmp_errno_here();                         \
		gmp_block_leave();                                                                 \
		gmp_value_;                                                                        \
	}))
#endif

#ifdef __cplusplus
}
#endif

#endif
