/* SPDX-License-Identifier: MIT */
/* Random decisions of chaos mode.  chaos.h lists them. */
#include "variant/chaos.h"

#include "base/os.h"
#include "base/rand.h"
#include "enter.h"

enum { DELAY_NS = 100 * US };

uint32_t chaos_draw(uint32_t n)
{
	static uint64_t shared; /* (a) for threads that have no P */
	uint64_t state = add_rlx(&shared, RAND_STEP) + cpu_ticks();
	struct m *m = getm();

	if (m)
		own_inc(&m->inside); /* no outermost section: the caller may hold any lock */
	struct p *pp = hold_p();
	uint32_t drawn = rand_below(pp ? &pp->rand : &state, n);

	drop_p();
	if (m)
		p_drop(m);
	return drawn;
}

void chaos_delay(void)
{
	if (!rt_replays() && chaos_draw(64) == 0)
		os_nap(chaos_draw(DELAY_NS));
}

size_t chaos_shorten(size_t n)
{
	if (n < 2 || chaos_draw(2))
		return n;
	return 1 + chaos_draw((uint32_t)min_of(n, (size_t)UINT32_MAX));
}
