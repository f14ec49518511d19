/* SPDX-License-Identifier: MIT */
/*
 * Green threads with own thread-locals, and a library that is loaded and unloaded meanwhile.
 *
 *   owntls LIBRARY    loads LIBRARY in green threads; prints "ok"
 *   owntls exit       ends the process in a green thread; status 7
 *   owntls -          starts a run with the flag, and prints its result
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmp.h>

#define EXPECT(x)                                                                                  \
	do {                                                                                       \
		if (!(x)) {                                                                        \
			fprintf(stderr, "owntls: line %d: %s\n", __LINE__, #x);                    \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

enum { EARLY = 30, LATE = 30, ROUNDS = 3 };

static const char *path;
static void *handle;
static int (*check)(int);
static void (*set)(int);
static int waiting, loaded, checked; /* atomic */
static __thread int own = 4;
#ifdef LARGE /* more than the stack that glibc's thread struct is read on */
static __thread char large[LARGE];
#else
static __thread char large[1];
#endif

static int get(int *p)
{
	return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}

static void add(int *p, int n)
{
	__atomic_fetch_add(p, n, __ATOMIC_SEQ_CST);
}

static gmp_g *start(gmp_fn fn, long n)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g = NULL;

	a.flags = GMP_OWN_TLS;
	EXPECT(gmp_spawn(&g, fn, (void *)n, &a) == 0);
	return g;
}

static void use_library(void *arg)
{
	int n = (int)(long)arg + 50;

	EXPECT(check(31));
	set(n);
	for (int i = 0; i < 20; i++) {
		gmp_yield();
		EXPECT(check(n));
	}
}

/* It has its block before the library comes. */
static void wait_for_library(void *arg)
{
	own = (int)(long)arg;
	add(&waiting, 1);
	while (!get(&loaded))
		gmp_sleep(GMP_MS);
	use_library(arg);
	EXPECT(own == (int)(long)arg);
	add(&checked, 1);
}

static void load(void *arg)
{
	(void)arg;
	handle = dlopen(path, RTLD_NOW);
	if (!handle)
		fprintf(stderr, "owntls: %s\n", dlerror());
	EXPECT(handle);
	*(void **)&check = dlsym(handle, "lib_check");
	*(void **)&set = dlsym(handle, "lib_set");
	EXPECT(check && set);
	use_library((void *)1L); /* at once, on the block of the caller */
	add(&loaded, 1);
}

static void nothing(void *arg)
{
	(void)arg;
	gmp_yield();
}

static void round_of_library(void)
{
	gmp_g *early[EARLY], *late[LATE];

	waiting = loaded = checked = 0;
	for (long i = 0; i < EARLY; i++)
		early[i] = start(wait_for_library, i);
	while (get(&waiting) < EARLY)
		gmp_yield();
	gmp_join(start(load, 0));
	for (long i = 0; i < LATE; i++)
		late[i] = start(use_library, i);
	for (int i = 0; i < EARLY; i++)
		gmp_join(early[i]);
	for (int i = 0; i < LATE; i++)
		gmp_join(late[i]);
	for (int i = 0; i < 100; i++) /* each on a block of the former ones */
		gmp_join(start(use_library, i));
	EXPECT(checked == EARLY);
	EXPECT(dlclose(handle) == 0);
	for (int i = 0; i < 20; i++) /* blocks with variables of a library that is gone */
		gmp_join(start(nothing, 0));
}

static void rounds(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++)
		round_of_library();
	puts("ok");
}

static void run_child(void *arg)
{
	int status = system("exit 3");

	(void)arg;
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	EXPECT(own == 4);
	EXPECT(large[sizeof(large) - 1] == 0);
	large[sizeof(large) - 1] = 1;
	exit(7);
}

static void exits(void *arg)
{
	(void)arg;
	gmp_join(start(run_child, 0));
}

int main(int argc, char **argv)
{
	gmp_config c = GMP_CONFIG_INIT;

	path = argc > 1 ? argv[1] : "-";
	if (strcmp(path, "-") == 0) {
		c.flags = GMP_OWN_TLS;
		printf("%d\n", gmp_run(exits, NULL, &c));
		return 0;
	}
	return -gmp_run(strcmp(path, "exit") == 0 ? exits : rounds, NULL, NULL);
}
