/* SPDX-License-Identifier: MIT */
/* A program whose malloc locks a mutex, as that of jemalloc: the dynamic linker calls it, too.  The
 * mutex is locked during a fork. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARENA = 64 << 20, ALIGNMENT = 16, THREADS = 20, ROUNDS = 100 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char arena[ARENA] __attribute__((aligned(4096)));
static size_t used;

/* The size is in front of the block, which is never used again. */
static void *take(size_t alignment, size_t n)
{
	pthread_mutex_lock(&mutex);
	size_t at = (used + ALIGNMENT + alignment - 1) & ~(alignment - 1);
	int fits = n < ARENA && at + n <= ARENA;

	if (fits)
		used = at + n;
	pthread_mutex_unlock(&mutex);
	if (!fits) {
		errno = ENOMEM;
		return NULL;
	}
	memcpy(arena + at - sizeof(n), &n, sizeof(n));
	return arena + at;
}

void *malloc(size_t n)
{
	return take(ALIGNMENT, n);
}

void free(void *p)
{
	(void)p;
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
}

void *calloc(size_t n, size_t size)
{
	return take(ALIGNMENT, n * size); /* the arena is zero */
}

void *realloc(void *p, size_t n)
{
	void *to = take(ALIGNMENT, n);
	size_t before = 0;

	if (p)
		memcpy(&before, (char *)p - sizeof(before), sizeof(before));
	if (to && p)
		memcpy(to, p, before < n ? before : n);
	return to;
}

void *memalign(size_t alignment, size_t n)
{
	return take(alignment < ALIGNMENT ? ALIGNMENT : alignment, n);
}

void *aligned_alloc(size_t alignment, size_t n)
{
	return memalign(alignment, n);
}

int posix_memalign(void **p, size_t alignment, size_t n)
{
	*p = memalign(alignment, n);
	return *p ? 0 : ENOMEM;
}

static void *allocate(void *arg)
{
	int *sum = calloc(1, sizeof(*sum));

	for (int i = 0; i < ROUNDS; i++) {
		char *text = NULL;

		if (asprintf(&text, "%d", i) > 0)
			*sum += atoi(text);
		free(text);
	}
	(void)arg;
	return sum;
}

static void lock_malloc(void)
{
	pthread_mutex_lock(&mutex);
}

static void unlock_malloc(void)
{
	pthread_mutex_unlock(&mutex);
}

static void watch_forks(void)
{
	pthread_atfork(lock_malloc, unlock_malloc, unlock_malloc);
}

/* Before libraries register their handlers. */
__attribute__((section(".preinit_array"),
	       used)) static void (*const before_all)(void) = watch_forks;

static int run(void)
{
	pthread_t t[THREADS];
	int sum = 0;

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, allocate, NULL))
			return 1;
	for (int i = 0; i < THREADS; i++) {
		void *one;

		if (pthread_join(t[i], &one))
			return 2;
		sum += *(int *)one;
	}
	printf("%d\n", sum);
	fflush(stdout);
	return 3;
}

int main(void)
{
	int status = 0, result = run();
	pid_t pid = fork();

	if (pid == 0)
		_exit(run() + 1);
	if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 4)
		return 4;
	return result;
}
