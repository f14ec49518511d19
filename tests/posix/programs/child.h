/* SPDX-License-Identifier: MIT */
/* For programs that run natively and under gmp-run: checks, children, threads. */
#ifndef TESTS_POSIX_CHILD_H
#define TESTS_POSIX_CHILD_H

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OTHER_UID = 65534 };

#define ENSURE(x) ((x) ? (void)0 : fail(#x, __LINE__))

__attribute__((unused)) static void fail(const char *what, int line)
{
	printf("failed: line %d: %s (errno %d)\n", line, what, errno);
	fflush(stdout);
	_exit(99);
}

/* Does the caller run as it must with (green) or without a runtime?  Natively both are true. */
__attribute__((unused)) static bool is_green(bool green)
{
	void *(*self)(void) = (void *(*)(void))(intptr_t)dlsym(RTLD_DEFAULT, "gmp_self");

	return !self || (self() != NULL) == green;
}

__attribute__((unused)) static bool under_gmp(void)
{
	return dlsym(RTLD_DEFAULT, "gmp_self") != NULL;
}

__attribute__((unused)) static int os_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = -2;

	ENSURE(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Runs fn in a child, which exits with its result; returns the status. */
__attribute__((unused)) static int in_child(int (*fn)(void))
{
	int status;

	fflush(stdout);
	pid_t pid = fork();

	ENSURE(pid >= 0);
	if (pid == 0) {
		int code = fn();

		fflush(stdout);
		_exit(code);
	}
	ENSURE(waitpid(pid, &status, 0) == pid);
	return status;
}

__attribute__((unused)) static pthread_t make(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	ENSURE(pthread_create(&t, NULL, fn, arg) == 0);
	return t;
}

__attribute__((unused)) static void join(pthread_t t)
{
	ENSURE(pthread_join(t, NULL) == 0);
}

/* -1: the thread has ended. */
static int uid_of(const char *task)
{
	char path[300], line[200];
	int uid = -1;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
	FILE *f = fopen(path, "r");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "Uid: %d", &uid);
	if (f)
		fclose(f);
	return uid;
}

/* libc does not change the ids of a thread that is about to end, and sooner or later is gone. */
static void ensure_changed(const char *task)
{
	struct timespec t = { 0, 1000000 };
	int uid, left = 10000;

	while ((uid = uid_of(task)) != -1 && uid != OTHER_UID) {
		ENSURE(left-- > 0);
		nanosleep(&t, NULL);
	}
}

__attribute__((unused)) static void ensure_all_changed(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;

	ENSURE(d);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			ensure_changed(e->d_name);
	closedir(d);
}

__attribute__((unused)) static void *change_user(void *arg)
{
	ENSURE(setresuid(OTHER_UID, OTHER_UID, OTHER_UID) == 0);
	ensure_all_changed();
	return arg;
}

#endif
