/* SPDX-License-Identifier: MIT */
/* A trace by GMP_TRACE does not prevent the report of a deadlock, which ends the trace first: the
 * last event is in the file. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "deadlock_util.h"

static const char last[] = "the last event";

static void app(void *arg)
{
	(void)arg;
	gmp_trace_log("test", last);
	wait_forever();
}

/* The status of a process that deadlocks while it records a trace. */
static int deadlock_with_trace(const char *path)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		NEED(setenv("GMP_TRACE", path, 1) == 0);
		execl("/proc/self/exe", "deadlock_trace", "child", (char *)NULL);
		_exit(1);
	}
	NEED(waitpid(child, &status, 0) == child);
	return status;
}

int main(int argc, char **argv)
{
	static char path[] = "/tmp/gmp-deadlock-XXXXXX", bytes[1 << 20];

	(void)argv;
	if (argc > 1)
		return gmp_run(app, NULL, NULL);
	int fd = mkstemp(path);

	NEED(fd >= 0);
	int status = deadlock_with_trace(path);
	ssize_t n = read(fd, bytes, sizeof(bytes));

	unlink(path);
	NEED(n > 0 && memmem(bytes, (size_t)n, last, strlen(last)));
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
