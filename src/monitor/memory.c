/* SPDX-License-Identifier: MIT */
/*
 * Memory: returns that of stacks to the kernel, and joins OS threads of the runtime that have
 * ended.
 *
 *   - A G has been parked for a second: return the memory below its stack pointer (SYSMON-1), in
 *     passes over all Gs (SYSMON-2).  If it waits for a known G (a mutex, a join), search for
 *     cycles after the pass, at most once a second (sched.up.long_waits).
 *   - Free stacks that were not used for a second: return their memory.
 */
#include "base/emit.h"
#include "base/os.h"
#include "g.h"
#include "m.h"
#include "monitor/monitor.h"
#include "proc.h"
#include "stack.h"
#include "variant/variant.h"
#include "wait/parkinglot.h"
#include "waiter.h"

enum {
	PARKED_NS = S,     /* a G is trimmed after so long a wait */
	PASS_NS = S,       /* between two passes over all Gs */
	SCAN_CHUNK = 2048, /* Gs a poll */
	TRIM_CHUNK = 256,  /* stacks a poll */
};

static struct {
	int64_t next_pass;
	int64_t pass_cost;   /* ns of CPU time, not of real time: sysmon may be preempted */
	uint32_t cursor;     /* index of the next G of the pass; 0: no pass is under way */
	bool unfinished;     /* a G of this pass must be checked again */
	bool long_waits;     /* a G has waited for PARKED_NS for a known G */
	int64_t next_period; /* of the low-water mark of the stack pool */
} memory;

/* SYSMON-1.  Returns true if the G must be checked again in a later pass. */
static bool trim_parked(struct g *gp, int64_t now)
{
	if (ld_rlx(&gp->status) != G_WAITING || ld_rlx(&gp->trimmed))
		return false;
	if (now - ld_rlx(&gp->since) < PARKED_NS)
		return true;
	uint32_t state = waiter_hold(&gp->w);

	if (state != WAITER_ARMED)
		return state == WAITER_BUSY; /* held by another thread: later */
	if (gp->stack &&
	    !sched.up.on_leave) { /* GMP_DEBUG=stack measures how deep stacks were used */
		size_t bytes = stack_trim_below(gp->stack, gp->ctx.sp);

		if (bytes)
			emit(EVENT_TRIM, 0, gp->id, bytes, 0);
	}
	st_rlx(&gp->trimmed, true);
	memory.long_waits |= (g_wait_kind(gp)->end & WAITEND_KNOWN) != 0;
	waiter_release(&gp->w);
	return false;
}

static void scan_gs(int64_t now)
{
	if (!memory.cursor && now < memory.next_pass)
		return;
	uint32_t made = g_made(), end = min_of(memory.cursor + SCAN_CHUNK, made);
	int64_t began = os_cpu_time();

	if (!memory.cursor)
		memory.unfinished = false;
	for (; memory.cursor < end; memory.cursor++)
		memory.unfinished |= trim_parked(g_at(memory.cursor), now);
	if (end == made && memory.long_waits && variant_gs_switch()) {
		memory.long_waits = sched.up.long_waits();
		memory.unfinished |= memory.long_waits;
	}
	memory.pass_cost += os_cpu_time() - began;
	if (end == made) {
		memory.cursor = 0;
		memory.next_pass = now + max_of((int64_t)PASS_NS, memory.pass_cost * DUTY);
		memory.pass_cost = 0;
	}
}

static void flush_idle_ps(void)
{
	lock(&sched.lock, LR_SCHED);
	for (struct p *pp = sched.pidle; pp; pp = pp->link)
		p_flush(pp);
	unlock(&sched.lock, LR_SCHED);
}

static int64_t trim_memory(int64_t now)
{
	if (!memory.next_pass)
		memory.next_pass = memory.next_period = now + PASS_NS;
	bool new_period = now >= memory.next_period;

	scan_gs(now);
	if (new_period) {
		memory.next_period = now + PARKED_NS;
		if (sched.asymmetric)
			lot_reset();
		if (!rt_replays()) /* it would change which g struct the P uses next */
			flush_idle_ps();
	}
	bool more = stack_trim_pool(TRIM_CHUNK, new_period);

	m_join_one(true);
	if (memory.cursor || more)
		return now + BUSY_NS;
	/* until a pass has begun a second after the last activity */
	return memory.unfinished || memory.next_pass <= active_at + PARKED_NS ? memory.next_pass
									      : NEVER;
}

struct monitor monitor_memory = { trim_memory, &memory, sizeof(memory) };
