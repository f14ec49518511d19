/* SPDX-License-Identifier: MIT */
/*
 * Measures what making a stack costs, in page tables and time, for each class.
 *
 * Makes COUNT stacks of a class by stack_get, which carves each from a slab and installs its guard.
 * Then writes to the top page of each, as the first run of a green thread does.  Prints the median
 * of ROUNDS.  VmPTE is exact to some KiB, so COUNT is large.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/os.h"
#include "stack.h"

enum { COUNT = 4000, ROUNDS = 9, LARGEST = 22 };

static double page_tables(void)
{
	char line[256];
	long kib = -1;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmPTE: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	if (kib < 0) {
		fprintf(stderr, "/proc/self/status has no VmPTE\n");
		exit(1);
	}
	return (double)kib * 1024;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), by_size);
	return v[ROUNDS / 2];
}

int main(void)
{
	static char *lo[COUNT];
	double bytes[ROUNDS], make[ROUNDS], touch[ROUNDS];

	printf("%10s %20s %12s %16s\n", "class", "page tables, bytes", "make, ns",
	       "first touch, ns");
	for (unsigned k = STACK_CLASS_MIN; k <= LARGEST; k++) {
		for (int r = 0; r < ROUNDS; r++) {
			if (stack_init(COUNT, k) || stack_reserve(k, COUNT))
				return 1;
			double before = page_tables();
			int64_t begin = os_now();

			for (int i = 0; i < COUNT; i++)
				if (!(lo[i] = stack_get(k)))
					return 1;
			int64_t made = os_now();

			for (int i = 0; i < COUNT; i++)
				stack_top(lo[i], k)[-1] = 1;
			touch[r] = (double)(os_now() - made) / COUNT;
			make[r] = (double)(made - begin) / COUNT;
			bytes[r] = (page_tables() - before) / COUNT;
			stack_fini();
		}
		printf("%6u KiB %20.0f %12.0f %16.0f\n", 1u << (k - 10), median(bytes),
		       median(make), median(touch));
	}
	return 0;
}
