/* SPDX-License-Identifier: MIT */
/* Virtual clock.  vtime.h has the invariants. */
#include "variant/vtime.h"

#include "base/os.h"
#include "policy/stall.h"
#include "timer/timerheap.h"
#include "variant/variant.h"

/* First value of the clock.  The same in each run, so that printed times repeat too; not 0, since
 * times in the past would be negative. */
enum { BEGINNING = S };

void vtime_begin(void)
{
	st_rlx(&sched.virtual_now, (int64_t)BEGINNING);
}

void vtime_end(void)
{
	st_rlx(&sched.virtual_now, (int64_t)0);
}

static void advance_to(int64_t when)
{
	if (when > ld_rlx(&sched.virtual_now))
		st_rlx(&sched.virtual_now, when);
}

/* VTIME-2.  Returns true if the clock has jumped. */
static bool vtime_jump(void)
{
	bool can;

	lock(&sched.lock, LR_SCHED);
	int64_t next = timers_earliest();

	can = next != NEVER && sched_only_time() && !ld_rlx(&sched.gqn);
	if (can)
		advance_to(next);
	unlock(&sched.lock, LR_SCHED);
	return can;
}

int64_t vtime_sleep(int64_t until)
{
	if (until == NEVER)
		return NEVER;
	if (vtime_jump())
		return 0;
	return sched_all_idle() ? (int64_t)time_between(rt_now(), until) : NEVER; /* VTIME-3 */
}

void vtime_slept(int64_t ns, int64_t began)
{
	int64_t next = timers_earliest();

	if (ns > 0 && ns != NEVER && next != NEVER)
		advance_to(min_of(next, rt_now() + (os_now() - began)));
}

int64_t vtime_real(int64_t deadline)
{
	int64_t now = ld_rlx(&sched.virtual_now), real, ns;

	if (likely(!now) || deadline == NEVER)
		return deadline;
	real = os_now();
	ns = max_of(deadline, now) - now;
	return ns > NEVER - real ? NEVER : real + ns;
}
