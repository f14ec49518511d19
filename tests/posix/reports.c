/* SPDX-License-Identifier: MIT */
/* Tests what a dump says of green threads that wait for objects of libc. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "threads.h"

static struct {
	pthread_mutex_t m, free;
	pthread_cond_t c;
	pthread_rwlock_t rw;
	pthread_barrier_t b;
	pthread_once_t once[2];
	sem_t s;
	uint32_t word;
	int go;
} o = { .m = PTHREAD_MUTEX_INITIALIZER,
	.free = PTHREAD_MUTEX_INITIALIZER,
	.c = PTHREAD_COND_INITIALIZER,
	.rw = PTHREAD_RWLOCK_INITIALIZER,
	.once = { PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT } };

static void lock_it(void *arg)
{
	(void)arg;
	CHECK_EQ(pthread_mutex_lock(&o.m), 0);
	CHECK_EQ(pthread_mutex_unlock(&o.m), 0);
}

static void wait_it(void *arg)
{
	(void)arg;
	CHECK_EQ(pthread_mutex_lock(&o.free), 0);
	while (!o.go)
		CHECK_EQ(pthread_cond_wait(&o.c, &o.free), 0);
	CHECK_EQ(pthread_mutex_unlock(&o.free), 0);
}

static void read_it(void *arg)
{
	(void)arg;
	CHECK_EQ(pthread_rwlock_rdlock(&o.rw), 0);
	CHECK_EQ(pthread_rwlock_unlock(&o.rw), 0);
}

static void meet_it(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&o.b);
}

static void take_it(void *arg)
{
	(void)arg;
	CHECK_EQ(sem_wait(&o.s), 0);
}

static void futex_it(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(&o.word, __ATOMIC_ACQUIRE))
		syscall(SYS_futex, &o.word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void init_it(void)
{
	thread_await(&o.go, 1);
}

static void once_it(void *arg)
{
	(void)arg;
	CHECK_EQ(pthread_once(&o.once[1], init_it), 0);
}

/* Whether a dump has "REASON 0xADDRESS". */
static bool is_reported(const char *reason, const void *object)
{
	static char text[1 << 16];
	char wanted[128];
	int fd = memfd_create("dump", 0);

	CHECK(fd >= 0);
	CHECK_EQ(gmp_dump(fd), 0);
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	close(fd);
	CHECK(n > 0);
	text[n] = 0;
	snprintf(wanted, sizeof(wanted), "%s 0x%lx", reason, (unsigned long)object);
	const char *at = strstr(text, wanted);

	return at && !strchr("0123456789abcdef", at[strlen(wanted)]);
}

static void report_all(void)
{
	struct {
		const char *reason;
		const void *object;
		void (*fn)(void *);
	} wait[] = {
		{ "pthread mutex", &o.m, lock_it },
		{ "pthread condition variable", &o.c, wait_it },
		{ "pthread rwlock", &o.rw, read_it },
		{ "pthread barrier", &o.b, meet_it },
		{ "POSIX semaphore", &o.s, take_it },
		{ "pthread once", &o.once[1], once_it },
		{ "futex", &o.word, futex_it },
	};
	enum { N = sizeof(wait) / sizeof(wait[0]) };
	struct thread t[N], first;

	CHECK_EQ(pthread_barrier_init(&o.b, NULL, 2), 0);
	CHECK_EQ(sem_init(&o.s, 0, 0), 0);
	CHECK_EQ(pthread_mutex_lock(&o.m), 0);
	CHECK_EQ(pthread_rwlock_wrlock(&o.rw), 0);
	thread_start(&first, once_it, NULL);
	for (int i = 0; i < N; i++) {
		thread_start(&t[i], wait[i].fn, NULL);
		while (!is_reported(wait[i].reason, wait[i].object))
			thread_pass();
	}
	CHECK_EQ(pthread_mutex_unlock(&o.m), 0);
	CHECK_EQ(pthread_rwlock_unlock(&o.rw), 0);
	CHECK_EQ(pthread_mutex_lock(&o.free), 0);
	thread_count(&o.go);
	CHECK_EQ(pthread_cond_signal(&o.c), 0);
	CHECK_EQ(pthread_mutex_unlock(&o.free), 0);
	CHECK_EQ(sem_post(&o.s), 0);
	meet_it(NULL);
	__atomic_store_n(&o.word, 1, __ATOMIC_RELEASE);
	CHECK_EQ(syscall(SYS_futex, &o.word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0), 1);
	for (int i = 0; i < N; i++)
		thread_end(&t[i]);
	thread_end(&first);
}

TEST_PROCS(dump_names_the_object_of_each_wait)
{
	thread_run(procs, report_all);
}
