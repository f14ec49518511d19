/* SPDX-License-Identifier: MIT */
/*
 * A library to preload that replaces functions of libc.  names.h, which interposer.sh makes, has
 * JUMP(name) for each function that libgmprt.so calls:
 *
 *   clocks     shown 1,000 days ahead and 100 times as fast, or stopped, as
 *              INTERPOSER_CLOCK=ahead or stopped asks
 *   failures   the function that INTERPOSER_FAIL names returns -1 with ENOSYS
 *   all others count their calls between interposer_begin and interposer_end, which prints them,
 *              and jump to libc
 */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { AHEAD_S = 1000 * 86400, AHEAD_RATE = 100 };

static int clock_mode; /* 0: libc's */

EXPORT int clock_gettime(clockid_t clock, struct timespec *t)
{
	static struct timespec first;
	int err = (int)syscall(SYS_clock_gettime, clock, t);

	if (err || !clock_mode || (clock != CLOCK_MONOTONIC && clock != CLOCK_REALTIME))
		return err;
	if (clock_mode == 's') {
		*t = (struct timespec){ 1000, 0 };
		return 0;
	}
	if (!first.tv_sec)
		syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &first);
	struct timespec now;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	t->tv_sec += AHEAD_S + (now.tv_sec - first.tv_sec) * (AHEAD_RATE - 1);
	return 0;
}

EXPORT int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec t;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &t);
	*tv = (struct timeval){ t.tv_sec, t.tv_nsec / 1000 };
	return 0;
}

EXPORT time_t time(time_t *to)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	if (to)
		*to = t.tv_sec;
	return t.tv_sec;
}

#define HIDDEN __attribute__((visibility("hidden")))
#if defined(__x86_64__)
#define CODE(name)                                                                                 \
	"endbr64\n\tlock incq interposer_n_" #name "(%rip)\n\tjmp *interposer_to_" #name "(%rip)"
#elif defined(__aarch64__)
#define CODE(name)                                                                                 \
	"bti c\n\tadrp x16, interposer_n_" #name "\n\tldr x17, [x16, :lo12:interposer_n_" #name    \
	"]\n\tadd x17, x17, 1\n\tstr x17, [x16, :lo12:interposer_n_" #name                         \
	"]\n\tadrp x16, interposer_to_" #name "\n\tldr x16, [x16, :lo12:interposer_to_" #name      \
	"]\n\tbr x16"
#endif

#define JUMP(name)                                                                                 \
	HIDDEN long interposer_n_##name;                                                           \
	HIDDEN void *interposer_to_##name;                                                         \
	__asm__(".text\n\t.globl " #name "\n\t.type " #name ", %function\n" #name                  \
		":\n\t" CODE(name) "\n");
#include "names.h"
#undef JUMP

static struct {
	const char *name;
	long *n, before;
	void **to;
} names[] = {
#define JUMP(name) { #name, &interposer_n_##name, 0, &interposer_to_##name },
#include "names.h"
#undef JUMP
};

static long fail(void)
{
	errno = ENOSYS;
	return -1;
}

static const char *value_of(char **env, const char *name)
{
	size_t n = strlen(name);

	for (; *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			return *env + n + 1;
	return NULL;
}

/* Before all other constructors (-z initfirst), which may call any of the functions; and before
 * that of libc, so getenv finds nothing yet. */
__attribute__((constructor)) static void find_all(int argc, char **argv, char **env)
{
	const char *failing = value_of(env, "INTERPOSER_FAIL");
	const char *mode = value_of(env, "INTERPOSER_CLOCK");

	(void)argc;
	(void)argv;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		*names[i].to = dlsym(RTLD_NEXT, names[i].name);
		if (failing && strcmp(failing, names[i].name) == 0)
			*names[i].to = (void *)fail;
	}
	clock_mode = mode ? *mode : 0;
}

EXPORT void interposer_begin(void);
EXPORT void interposer_end(void);

void interposer_begin(void)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		names[i].before = __atomic_load_n(names[i].n, __ATOMIC_RELAXED);
}

void interposer_end(void)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		long n = __atomic_load_n(names[i].n, __ATOMIC_RELAXED) - names[i].before;

		char line[128];

		if (n > 0) /* not by write, which is counted */
			syscall(SYS_write, STDOUT_FILENO, line,
				(size_t)snprintf(line, sizeof(line), "%s %ld\n", names[i].name, n));
	}
}
