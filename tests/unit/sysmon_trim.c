/* SPDX-License-Identifier: MIT */
/*
 * Tests how soon sysmon trims stacks again after a trim that took long without computing. Sysmon
 * releases the pages below the stack pointers of parked Gs and uses at most 5 % of a CPU for it
 * (memory.c, SYSMON-2).
 *
 * floors 0..6, wrap: os_discard
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "base/atomic.h"
#include "base/os.h"
#include "rt.h"

void __real_os_discard(void *addr, size_t bytes);
void __wrap_os_discard(void *addr, size_t bytes);

enum { DEEP = 64 << 10, FIRST = 0, SECOND = 1 };

static void *lowest[2]; /* (a) the lowest address that each G has used on its stack */
static int released[2]; /* (a) */

/* The first call is delayed, as if other threads had the CPU. */
void __wrap_os_discard(void *addr, size_t bytes)
{
	for (int i = 0; i < 2; i++) {
		uintptr_t at = (uintptr_t)ld_seq(&lowest[i]);

		if (at >= (uintptr_t)addr && at < (uintptr_t)addr + bytes) {
			if (i == FIRST && !ld_seq(&released[i]))
				os_nap(2 * S);
			st_seq(&released[i], 1);
		}
	}
	__real_os_discard(addr, bytes);
}

/* On the G's stack: AddressSanitizer would move the array elsewhere. */
static __attribute__((__noinline__, no_sanitize("address"))) void dive(void **where)
{
	volatile char room[DEEP];

	for (size_t i = 0; i < sizeof(room); i += 512)
		room[i] = 1;
	st_seq(where, (void *)(uintptr_t)&room[0]);
}

static gmp_wg gate = GMP_WG_INIT;

static void dive_and_park(void *where)
{
	dive(where);
	CHECK_EQ(gmp_wg_wait(&gate), 0);
}

static void wait_until_released(int which)
{
	int64_t limit = gmp_deadline(20 * S); /* 20 times the 2 s would be longer */

	while (!ld_seq(&released[which])) {
		CHECK(gmp_now() < limit);
		gmp_sleep(10 * MS);
	}
}

static void app(void *arg)
{
	(void)arg;
	CHECK_EQ(gmp_wg_add(&gate, 1), 0);
	for (int i = FIRST; i <= SECOND; i++) {
		CHECK_EQ(gmp_go(dive_and_park, &lowest[i]), 0);
		wait_until_released(i);
	}
	CHECK_EQ(gmp_wg_done(&gate), 0);
}

TEST(sysmon_trim_preempted_resumes_soon)
{
	CHECK_EQ(gmp_run(app, NULL, NULL), 0);
}
