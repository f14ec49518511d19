/* SPDX-License-Identifier: MIT */
/*
 * Loads, uses and unloads a library that contains gmp.
 *
 *   dlopen cycles LIB       800 times load, run, unload: no pthread key leaks, and a thread that
 *                           has called gmp ends after the unload
 *   dlopen order A B ORDER  two plugins with a copy of gmp each; ORDER is a word of A and B (start)
 *                           and a and b (stop); the program's handler of SIGSEGV then exits with 42
 *   dlopen default A B ORDER  the same without a handler: SIGSEGV ends the process
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <gmp.h>

static void check(int ok, const char *what)
{
	if (ok)
		return;
	printf("%s: %s\n", what, dlerror());
	exit(1);
}

static void *load(const char *path)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	check(lib != NULL, path);
	return lib;
}

static int free_keys(void)
{
	static pthread_key_t keys[PTHREAD_KEYS_MAX];
	int n = 0;

	while (n < PTHREAD_KEYS_MAX && pthread_key_create(&keys[n], NULL) == 0)
		n++;
	for (int i = 0; i < n; i++)
		pthread_key_delete(keys[i]);
	return n;
}

/* --- cycles --- */

static sem_t called, unloaded;

static void nothing(void *arg)
{
	(void)arg;
}

/* An external thread with a local value: gmp calls its destructor if gmp is still loaded. */
static void *external(void *lib)
{
	int (*create)(gmp_key *, void (*)(void *)) =
		(__typeof__(create))dlsym(lib, "gmp_key_create");
	int (*set)(gmp_key, void *) = (__typeof__(set))dlsym(lib, "gmp_key_set");
	gmp_key k;

	check(create && set && create(&k, nothing) == 0 && set(k, &k) == 0, "gmp_key_set");
	sem_post(&called);
	sem_wait(&unloaded);
	return NULL;
}

static void cycle(const char *path)
{
	void *lib = load(path);
	int (*run)(gmp_fn, void *, const gmp_config *) = (__typeof__(run))dlsym(lib, "gmp_run");
	int (*start)(const gmp_config *) = (__typeof__(start))dlsym(lib, "gmp_start");
	int (*stop)(void) = (__typeof__(stop))dlsym(lib, "gmp_stop");
	pthread_t t;

	check(run && start && stop, "dlsym");
	check(run(nothing, NULL, NULL) == 0, "gmp_run");
	check(start(NULL) == 0, "gmp_start");
	check(pthread_create(&t, NULL, external, lib) == 0, "pthread_create");
	sem_wait(&called);
	check(stop() == 0, "gmp_stop");
	dlclose(lib);
	sem_post(&unloaded);
	pthread_join(t, NULL);
}

static int cycles(const char *path)
{
	int before = free_keys();

	sem_init(&called, 0, 0);
	sem_init(&unloaded, 0, 0);
	for (int i = 0; i < 800; i++)
		cycle(path);
	if (free_keys() < before - 2) {
		printf("%d keys were free, %d are\n", before, free_keys());
		return 1;
	}
	return 0;
}

/* --- two copies --- */

static void on_segv(int signo, siginfo_t *info, void *context)
{
	(void)signo, (void)info, (void)context;
	_exit(42);
}

static int *volatile nowhere;

static int order(char **argv)
{
	struct sigaction sa = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO };
	void *lib[2] = { load(argv[2]), load(argv[3]) };

	if (strcmp(argv[1], "order") == 0)
		sigaction(SIGSEGV, &sa, NULL);
	for (const char *s = argv[4]; *s; s++) {
		int (*fn)(void) = (__typeof__(fn))dlsym(lib[(*s | 0x20) - 'a'],
							*s < 'a' ? "plugin_start" : "plugin_stop");

		check(fn && fn() == 0, argv[4]);
	}
	dlclose(lib[0]);
	dlclose(lib[1]);
	*nowhere = 1;
	return 3;
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return cycles(argv[2]);
	return argc == 5 ? order(argv) : 2;
}
