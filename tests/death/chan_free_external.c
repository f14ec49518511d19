/* SPDX-License-Identifier: MIT */
/* Without a runtime, a channel is freed while an external thread waits on it: fatal error. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gmp.h>

static gmp_chan *c;
static atomic_long receiver_id;

static void *receiver(void *arg)
{
	atomic_store(&receiver_id, syscall(SYS_gettid));
	gmp_chan_recv(c, NULL);
	return arg;
}

/* Returns 1 if the receiver sleeps on a futex. */
static int waits(void)
{
	char path[64];
	long number = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/syscall", atomic_load(&receiver_id));
	f = fopen(path, "re");
	if (f != NULL) {
		if (fscanf(f, "%ld", &number) != 1)
			number = -1; /* running */
		fclose(f);
	}
	return number == SYS_futex;
}

int main(void)
{
	pthread_t t;

	c = gmp_chan_new(sizeof(int), 0);
	pthread_create(&t, NULL, receiver, NULL);
	while (atomic_load(&receiver_id) == 0 || !waits())
		;
	gmp_chan_free(c);
	return 0;
}
