#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gmp-run: a library that is loaded with RTLD_DEEPBIND calls libc's functions.  They block OS
# threads, and its unlock wakes no parked green thread; the program ends with the output of a native
# run.
#
#   run_deepbind.sh BUILD
set -euo pipefail
build=$1
run=$build/tools/gmp-run
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if ! "$run" true 2>"$tmp/err"; then
	grep -q 'not supported here' "$tmp/err" && exit 77
	cat "$tmp/err"
	exit 1
fi

cat >"$tmp/library.c" <<'END'
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

void *address(void)
{
	return (void *)pthread_mutex_lock;
}

int lock(pthread_mutex_t *m)
{
	return pthread_mutex_lock(m);
}

int unlock(pthread_mutex_t *m)
{
	return pthread_mutex_unlock(m);
}

int read_byte(int fd)
{
	char c;

	return read(fd, &c, 1) == 1 ? c : -1;
}

/* Two callers, 0 and 1, alternate. */
void pass_on(int me)
{
	pthread_mutex_lock(&mutex);
	while (turn != me)
		pthread_cond_wait(&changed, &mutex);
	turn = !me;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&mutex);
}

static void *add(void *n)
{
	*(int *)n += 1;
	return n;
}

int add_in_thread(int n)
{
	pthread_t t;

	return pthread_create(&t, NULL, add, &n) || pthread_join(t, NULL) ? -1 : n;
}
END

cat >"$tmp/main.c" <<'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENSURE(x) ((x) ? (void)0 : (printf("failed: line %d: %s\n", __LINE__, #x), exit(99)))

static void *(*address)(void);
static int (*lock)(pthread_mutex_t *), (*unlock)(pthread_mutex_t *), (*read_byte)(int);
static void (*pass_on)(int);
static int (*add_in_thread)(int);
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t begun;
static int p[2], locked;

static pthread_t start(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	ENSURE(pthread_create(&t, NULL, fn, arg) == 0);
	ENSURE(sem_wait(&begun) == 0);
	return t;
}

static void join(pthread_t t)
{
	ENSURE(pthread_join(t, NULL) == 0);
}

static void *read_in_library(void *arg)
{
	sem_post(&begun);
	ENSURE(read_byte(p[0]) == 'x');
	return arg;
}

static void *lock_in_library(void *arg)
{
	sem_post(&begun);
	ENSURE(lock(&mutex) == 0);
	locked++;
	ENSURE(pthread_mutex_unlock(&mutex) == 0);
	return arg;
}

static void *lock_here(void *arg)
{
	sem_post(&begun);
	ENSURE(pthread_mutex_lock(&mutex) == 0);
	locked++;
	ENSURE(pthread_mutex_unlock(&mutex) == 0);
	return arg;
}

static void *alternate(void *me)
{
	sem_post(&begun);
	for (int i = 0; i < 200; i++)
		pass_on(me != NULL);
	return NULL;
}

static void find(void *function, void *library, const char *name)
{
	void *found = dlsym(library, name);

	ENSURE(found);
	memcpy(function, &found, sizeof(found));
}

static void load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
	Dl_info info;

	ENSURE(library);
	find(&address, library, "address");
	find(&lock, library, "lock");
	find(&unlock, library, "unlock");
	find(&read_byte, library, "read_byte");
	find(&pass_on, library, "pass_on");
	find(&add_in_thread, library, "add_in_thread");
	ENSURE(dladdr(address(), &info) && strstr(info.dli_fname, "libc.so"));
}

int main(int argc, char **argv)
{
	ENSURE(argc == 2);
	load(argv[1]);
	ENSURE(sem_init(&begun, 0, 0) == 0);
	ENSURE(pipe(p) == 0);

	/* a call that blocks its OS thread keeps no other thread from running */
	pthread_t a = start(read_in_library, NULL), b = start(read_in_library, NULL);

	ENSURE(write(p[1], "xx", 2) == 2);
	join(a);
	join(b);

	/* the replaced unlock wakes a thread that waits in libc */
	ENSURE(pthread_mutex_lock(&mutex) == 0);
	a = start(lock_in_library, NULL);
	usleep(20000); /* usually it waits then */
	ENSURE(locked == 0);
	ENSURE(pthread_mutex_unlock(&mutex) == 0);
	join(a);
	ENSURE(locked == 1);

	/* libc's unlock wakes no parked thread; the next replaced one does */
	ENSURE(lock(&mutex) == 0);
	a = start(lock_here, NULL);
	usleep(20000);
	ENSURE(unlock(&mutex) == 0);
	ENSURE(pthread_mutex_lock(&mutex) == 0);
	ENSURE(pthread_mutex_unlock(&mutex) == 0);
	join(a);
	ENSURE(locked == 2);

	/* a condition variable of the library */
	a = start(alternate, NULL);
	b = start(alternate, &begun);
	join(a);
	join(b);

	ENSURE(add_in_thread(41) == 42);
	puts("ended");
	return 0;
}
END
cc=${CC:-cc}
"$cc" -pthread -shared -fPIC -o "$tmp/library.so" "$tmp/library.c"
"$cc" -pthread -o "$tmp/main" "$tmp/main.c" -ldl
wanted=$("$tmp/main" "$tmp/library.so")
[ "$wanted" = ended ]
for procs in 1 2 4; do
	got=$(GMP_PROCS=$procs timeout 50 "$run" "$tmp/main" "$tmp/library.so") || {
		echo "$procs Ps: status $?: $got"
		exit 1
	}
	[ "$got" = "$wanted" ]
done
