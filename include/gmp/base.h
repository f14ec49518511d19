/* SPDX-License-Identifier: MIT */
/*
 * What all headers of gmp share: version, function and handle types, and a safe errno.
 *
 * Every other header includes this one.
 */
#ifndef GMPRT_BASE_H
#define GMPRT_BASE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define GMP_API __attribute__((visibility("default")))
#else
#define GMP_API
#endif

/*
 * The version of this header: semantic versioning. Before 1.0 the minor number changes when a
 * program must be recompiled or changed. CMakeLists.txt takes the version of the package from here.
 */
#define GMP_VERSION_MAJOR 0
#define GMP_VERSION_MINOR 2
#define GMP_VERSION_PATCH 0

/*
 * gmp_version_string - version of the library that the program runs with, for example "0.2.0"
 *
 * It differs from GMP_VERSION_* if the program was compiled with the header of another version.
 *
 * Returns a string with static storage duration.
 */
GMP_API const char *gmp_version_string(void);

/* The initialiser of a struct that holds its own size; all other fields are 0. */
#ifdef __cplusplus
extern "C++" {
template <typename T> inline T gmp_sized_()
{
	T t = T();

	t.size = sizeof(T);
	return t;
}
}
#define GMP_SIZED_INIT_(type) gmp_sized_<type>()
#else
/* clang-format off */
#define GMP_SIZED_INIT_(type) { .size = sizeof(type) }
/* clang-format on */
#endif

/*
 * For gmp_attr.flags, and for gmp_config.flags, where it applies to all green threads of the run
 * (also GMP_TLS=own): the green thread has thread-locals of its own, as an OS thread has. errno,
 * variables with __thread, _Thread_local or thread_local, pthread_self() and values of pthread keys
 * stay with it wherever it continues, and their addresses do not change. Constructors and
 * destructors run when it uses a variable first, and when it ends.
 *
 * Needs glibc 2.34 or later, and on x86-64 a CPU and kernel with FSGSBASE. Without these gmp_spawn
 * or gmp_run fails with -ENOTSUP, and a line on stderr says what is missing. With GMP_SCHED_THREAD
 * each green thread has its own anyway. docs/api/errno-and-thread-locals.md has what it costs and
 * what does not work in it.
 */
#define GMP_OWN_TLS 4u

/* What a green thread runs. */
typedef void (*gmp_fn)(void *arg);

/* Handle of a green thread (gmp/green.h). */
typedef struct gmp_g gmp_g;

/* A channel (gmp/chan.h). */
typedef struct gmp_chan gmp_chan;

/*
 * gmp_errno_here - address of the errno of the OS thread that runs the caller now
 *
 * errno belongs to an OS thread. After a call that may wait the caller may be on another OS thread,
 * and a compiler may still use the address of the errno of the former one. If a function both waits
 * and reads errno, define GMP_SAFE_ERRNO before the first include of a gmp header: each use of
 * errno then calls this function, which returns the address of the current OS thread's errno.
 *
 * The value does not follow the green thread: docs/api/errno-and-thread-locals.md.
 *
 * Returns the address; valid until the next call that may wait.
 *
 * Example:
 *   #define GMP_SAFE_ERRNO
 *   #include <assert.h>
 *   #include <gmp.h>
 *   #include <unistd.h>
 *
 *   static void app(void *arg)
 *   {
 *           int err = close(-1) ? errno : 0;     // read it at once, and keep it in a variable
 *
 *           (void)arg;
 *           gmp_yield();
 *           assert(err == EBADF);
 *   }
 */
GMP_API int *gmp_errno_here(void);
#ifdef GMP_SAFE_ERRNO
#undef errno
#define errno (*gmp_errno_here())
#endif

#ifdef __cplusplus
}
#endif

#endif
