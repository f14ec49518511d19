/* SPDX-License-Identifier: MIT */
/* What has this program written to stderr, which death.sh makes a file? */
#ifndef TESTS_DEATH_TOLD_H
#define TESTS_DEATH_TOLD_H

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* How often the text is there; -1: stderr is no file. */
static inline int told_times(const char *text)
{
	static char all[65536];
	struct stat st;
	int times = 0;

	if (fstat(2, &st) != 0 || !S_ISREG(st.st_mode))
		return -1;
	int fd = open("/proc/self/fd/2", O_RDONLY);
	ssize_t n = read(fd, all, sizeof(all) - 1);

	close(fd);
	all[n > 0 ? n : 0] = '\0';
	for (const char *at = all; (at = strstr(at, text)); at++)
		times++;
	return times;
}

/* 1: the text is there; 0: not yet; -1: stderr is no file. */
static inline int told(const char *text)
{
	int times = told_times(text);

	return times > 0 ? 1 : times;
}

/* ThreadSanitizer calls the handler of a thread that sleeps in a system call when the call has returned. */
#ifdef __SANITIZE_THREAD__
enum { AWAIT_MS = 1500 };
#else
enum { AWAIT_MS = 30000 };
#endif

/*
 * Sleep in the kernel until the text is there, AWAIT_MS at most; in a terminal for a second.  The undeclared sleep is
 * what the test wants reported.  Polling: a file that sysmon writes to gives no event.
 */
static inline void await_told(const char *text)
{
	struct timespec ms = { .tv_nsec = 1000000 };

	for (int i = 0, now; (now = told(text)) <= 0 && i < (now < 0 ? 1000 : AWAIT_MS); i++)
		nanosleep(&ms, NULL);
}

#endif
