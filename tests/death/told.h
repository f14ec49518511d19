/* SPDX-License-Identifier: MIT */
/* Checks what this program has written to stderr so far, which death.sh makes a file. */
#ifndef TESTS_DEATH_TOLD_H
#define TESTS_DEATH_TOLD_H

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Returns how often stderr contains the text, or -1 if stderr is no file. */
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

/* Returns 1 if stderr contains the text, 0 if not yet, -1 if stderr is no file. */
static inline int told(const char *text)
{
	int times = told_times(text);

	return times > 0 ? 1 : times;
}

/* ThreadSanitizer delays the handler of a thread in a system call until the call returns. */
#ifdef __SANITIZE_THREAD__
enum { AWAIT_MS = 1500 };
#else
enum { AWAIT_MS = 30000 };
#endif

/*
 * Sleep in the kernel until stderr contains the n texts, for at most AWAIT_MS; for a second if
 * stderr is a terminal.  The undeclared sleep is what the test wants reported.  Polling, because a
 * file that sysmon writes to gives no event.
 */
static inline void await_all_told(const char *const *texts, int n)
{
	struct timespec ms = { .tv_nsec = 1000000 };

	for (int i = 0, at = 0; at < n; i++) {
		int now = told(texts[at]);

		if (now > 0)
			at++;
		else if (i >= (now < 0 ? 1000 : AWAIT_MS))
			break;
		else
			nanosleep(&ms, NULL);
	}
}

static inline void await_told(const char *text)
{
	await_all_told(&text, 1);
}

#endif
