/* SPDX-License-Identifier: MIT */
/*
 * Runs everything.c on a thread with a stack of argv[1] KiB, above an inaccessible page.
 *
 * Prints the status of the run, and how many bytes of the stack were written.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define main everything
#include "everything.c"
#undef main

static void *thread(void *arg)
{
	*(int *)arg = everything();
	return NULL;
}

int main(int argc, char **argv)
{
	size_t size = (size_t)atoi(argc > 1 ? argv[1] : "64") * 1024, untouched = 0;
	unsigned char *base = mmap(NULL, size + 65536, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int status = -1;
	pthread_attr_t attr;
	pthread_t t;

	if (base == MAP_FAILED || mprotect(base, 65536, PROT_NONE) != 0)
		return 1;
	base += 65536;
	memset(base, 0xa5, size);
	pthread_attr_init(&attr);
	if (pthread_attr_setstack(&attr, base, size) != 0 ||
	    pthread_create(&t, &attr, thread, &status) != 0)
		return 1;
	pthread_join(t, NULL);
	while (untouched < size && base[untouched] == 0xa5)
		untouched++;
	printf("status %d, %zu of %zu bytes used\n", status, size - untouched, size);
	return 0;
}
