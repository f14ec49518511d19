/* SPDX-License-Identifier: MIT */
/*
 * Compatibility with old versions of glibc: replacements for functions that glibc 2.28 lacks.
 *
 * The build includes this file before each file of the library if glibc is older than 2.34, or if
 * the option GMP_GLIBC_FLOOR is on. With the option the library requires no symbol version above
 * GLIBC_2.28, although it is built with a newer glibc (cmake/glibc_floor.cmake).
 */
#ifndef GMP_GLIBC_FLOOR_H
#define GMP_GLIBC_FLOOR_H

#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>

/* --- functions that are newer than glibc 2.28 --- */

/* The file actions of 2.29 and 2.34, if the program's libc has them; otherwise ENOTSUP. */
__attribute__((unused)) static int gmp__addchdir(posix_spawn_file_actions_t *a, const char *path)
{
	int (*fn)(posix_spawn_file_actions_t *, const char *);
	void *found = dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addchdir_np");

	memcpy(&fn, &found, sizeof(fn)); /* C has no cast from an object to a function */
	return found ? fn(a, path) : ENOTSUP;
}
#define posix_spawn_file_actions_addchdir_np(a, path) gmp__addchdir(a, path)

__attribute__((unused)) static int gmp__addclosefrom(posix_spawn_file_actions_t *a, int from)
{
	int (*fn)(posix_spawn_file_actions_t *, int);
	void *found = dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addclosefrom_np");

	memcpy(&fn, &found, sizeof(fn));
	return found ? fn(a, from) : ENOTSUP;
}
#define posix_spawn_file_actions_addclosefrom_np(a, from) gmp__addclosefrom(a, from)

/* --- functions that glibc 2.28 has inline only --- */

#ifdef GMP_GLIBC_FLOOR

/* The struct stat of __fxstat. */
#if defined(__x86_64__)
enum { GMP_STAT_VER = 1 };
#else
enum { GMP_STAT_VER = 0 };
#endif

/* stat and fstat were inline functions around these until 2.33. */
int __fxstat(int version, int fd, struct stat *st);
int __xstat(int version, const char *path, struct stat *st);
#define fstat(fd, st) __fxstat(GMP_STAT_VER, fd, st)
#define stat(path, st) __xstat(GMP_STAT_VER, path, st)

#endif

#endif
