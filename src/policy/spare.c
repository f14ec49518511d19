/* SPDX-License-Identifier: MIT */
/* The thread that makes spare Ms; see spare.h. */
#include "policy/spare.h"

#include "base/os.h"
#include "m.h"

enum {
	SPARE_STOP = 1,
	SPARE_ASK = 2,
	SPARE_STACK = 256 * 1024, /* signal handlers of the program run here */
};

static struct {
	pthread_t thread;
	uint32_t asked; /* (a) a futex: changes with each request; SPARE_STOP: the thread ends */
	bool exists;    /* sysmon's */
	int promised;   /* (l) Ms that are being made or do not stop yet */
	int tid;        /* (a) */
} spare;

/* Returns true if one more M must be made, which it has reserved. */
static bool spare_reserve(void)
{
	lock(&sched.lock, LR_SCHED);
	bool make = ld_rlx(&sched.state) == RUN_ON && sched.nmidle + spare.promised < SPARES &&
		    m_reserve_locked();

	if (make) {
		sched.nstarting++;
		spare.promised++;
	}
	unlock(&sched.lock, LR_SCHED);
	return make;
}

static bool spare_make(void)
{
	struct m *m = m_new();

	if (!m)
		return false;
	m->spare = true;
	if (m_start(m) == 0)
		return true;
	m_free(m);
	return false;
}

/* Make one M if fewer than SPARES are stopped.  Returns false if not. */
static bool spare_add(void)
{
	if (!spare_reserve())
		return false;
	bool made = spare_make();

	lock(&sched.lock, LR_SCHED);
	sched.nstarting--;
	if (!made)
		spare.promised--;
	unlock(&sched.lock, LR_SCHED);
	add_rlx(&sched.total.refused, !made);
	return made;
}

static void *spare_main(void *arg)
{
	(void)arg;
	os_thread_slice(0, OS_SLICE_SHORT);
	for (uint32_t asked; !((asked = ld_rlx(&spare.asked)) & SPARE_STOP);) {
		while (spare_add())
			;
		os_futex_wait(&spare.asked, asked, NEVER);
	}
	return NULL;
}

void spare_begin(void)
{
	__builtin_memset(&spare, 0, sizeof(spare));
}

static void spare_call(uint32_t change)
{
	add_rlx(&spare.asked, change);
	os_futex_wake(&spare.asked, 1);
}

void spare_end(void)
{
	if (!spare.exists)
		return;
	spare_call(SPARE_STOP);
	pthread_join(spare.thread, NULL);
	spare.exists = false;
}

int spare_tid(void)
{
	return ld_rlx(&spare.tid);
}

bool spare_may_start(void)
{
	return ld_rlx(&sched.npreempted) < SPARE_FROM * ld_rlx(&sched.procs);
}

/* Measured, two CPUs, Linux 6.18.  Short slices for all Ms: pigz with 4 threads takes 1.08 times as
 * long, with a CPU idle for a tenth of the time.  For none: beside 64 Gs that compute a sleep of 1
 * ms took 61 and 320 ms in 2 of 10 runs, 25 ms at most otherwise. */
int64_t m_slice(void)
{
	return spare_may_start() ? 0 : OS_SLICE_SHORT;
}

int spare_ask(void)
{
	if (spare_may_start()) {
		spare_add();
		return 0;
	}
	if (!spare.exists) {
		int err = os_thread_start(&spare.thread, spare_main, NULL, SPARE_STACK, &spare.tid);

		if (err)
			return err;
		spare.exists = true;
	}
	spare_call(SPARE_ASK);
	return 0;
}

void spare_listed_locked(struct m *m)
{
	if (m->spare)
		spare.promised--;
	m->spare = false;
}
