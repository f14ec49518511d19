/* SPDX-License-Identifier: MIT */
/*
 * With GMP_DEBUG=check, the probe of own thread-locals in the first gmp_spawn with GMP_OWN_TLS is
 * not reported as a long run, although it waits for OS threads: here for 60 ms.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gmp.h>

static __thread int delayed; /* of this thread's next pthread_create */
static int delays;

/* That of libc, for libgmprt too: the probe makes OS threads. */
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	void *found = dlsym(RTLD_NEXT, "pthread_create");

	memcpy(&real, &found, sizeof(real));
	if (delayed) {
		struct timespec time = { 0, 60000000 }; /* sysmon must not report it after 10 ms */

		delayed = 0;
		delays++;
		while (nanosleep(&time, &time))
			;
	}
	return real(t, a, fn, arg);
}

static void nothing(void *arg)
{
	(void)arg;
}

static void app(void *unused)
{
	gmp_attr a = GMP_ATTR_INIT;
	gmp_g *g;

	(void)unused;
	a.flags = GMP_OWN_TLS;
	delayed = 1;
	int err = gmp_spawn(&g, nothing, NULL, &a);

	if (err)
		exit(err == -ENOTSUP ? 77 : 2);
	gmp_join(g);
}

int main(void)
{
	gmp_config c = GMP_CONFIG_INIT;

	setenv("GMP_DEBUG", "check", 1);
	c.procs = 1;
	return gmp_run(app, NULL, &c) || delays != 1;
}
