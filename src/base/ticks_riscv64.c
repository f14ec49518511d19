/* SPDX-License-Identifier: MIT */
/*
 * Scale of cpu_ticks on riscv64: measures the frequency of the time CSR once, when the library is
 * loaded.
 *
 * No instruction reads the frequency, and the file that has it (timebase-frequency) exists with a
 * device tree only.  TICKS_10US needs the right power of two: ticks have 1.7 to 3.3 GHz, so
 * TICKS_10US is 7.5 to 15 us.
 */
#include "base/base.h"
#include "base/os.h"

/* MEASURE_NS: 50 steps of a time CSR with 1 MHz, the slowest; the error is 2 %.  CLOSE_NS: if two
 * reads of the clock are farther apart, the thread was preempted between them. */
enum { MEASURE_NS = 50 * US, CLOSE_NS = 5 * US, TRIES = 20 };
static const uint64_t TICKS_HZ = UINT64_C(25000) * 100000; /* TICKS_10US */

unsigned char gmp__ticks_shift;

struct point {
	int64_t ns;
	uint64_t steps;
};

/* Reads both at about the same time. */
static struct point point_now(void)
{
	struct point p;
	int64_t before;

	for (int i = 0; i < TRIES; i++) {
		before = os_now();
		__asm__ volatile("rdtime %0" : "=r"(p.steps));
		p.ns = os_now();
		if (p.ns - before < CLOSE_NS)
			break;
	}
	return p;
}

__attribute__((constructor)) static void ticks_measure(void)
{
	struct point begin = point_now(), end;

	do {
		end = point_now();
	} while (end.ns - begin.ns < MEASURE_NS);
	uint64_t hz = (end.steps - begin.steps) * S / (uint64_t)(end.ns - begin.ns);

	for (; hz && hz + hz / 2 < TICKS_HZ; hz *= 2)
		gmp__ticks_shift++;
}
