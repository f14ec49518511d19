/* SPDX-License-Identifier: MIT */
/*
 * Tests the search for cycles while g structs are made: a G waits for a G that was made after the
 * search counted them. The memory of the search ends directly before an unreadable page.
 *
 * floors 0..6, wrap: g_made os_reserve os_release
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "observe/dump/cycle.h"

#include <sys/mman.h>

#include "base/os.h"
#include "g.h"
#include "rt.h"

uint32_t __real_g_made(void);
void *__real_os_reserve(size_t bytes);
void __real_os_release(void *addr, size_t bytes);
uint32_t __wrap_g_made(void);
void *__wrap_os_reserve(size_t bytes);
void __wrap_os_release(void *addr, size_t bytes);

enum { COUNTED = PAGE / 8 }; /* two words per G fill a page */

static uint32_t searching; /* (a) cycles_watch is running */
static char *memory;

uint32_t __wrap_g_made(void)
{
	return ld_rlx(&searching) ? COUNTED : __real_g_made();
}

void *__wrap_os_reserve(size_t bytes)
{
	if (!ld_rlx(&searching))
		return __real_os_reserve(bytes);
	CHECK_EQ(bytes, PAGE);
	memory = __real_os_reserve((size_t)2 * PAGE);
	CHECK(memory != NULL);
	CHECK_EQ(mprotect(memory + PAGE, PAGE, PROT_NONE), 0);
	return memory;
}

void __wrap_os_release(void *addr, size_t bytes)
{
	__real_os_release(addr, addr == memory ? (size_t)2 * PAGE : bytes);
}

static gmp_chan *never, *handles;

static void wait_for_end(void *arg)
{
	(void)arg;
	gmp_chan_recv(never, NULL);
}

static void join_one(void *arg)
{
	gmp_g *g;

	(void)arg;
	CHECK_EQ(gmp_chan_recv(handles, &g), 0);
	gmp_join(g);
}

static gmp_g *spawn(gmp_fn fn)
{
	gmp_g *g;

	CHECK_EQ(gmp_spawn(&g, fn, NULL, NULL), 0);
	return g;
}

static void wait_until_joining(gmp_g *g)
{
	struct g *gp = (struct g *)g;

	while (ld_acq(&gp->status) != G_WAITING || ld_rlx(&gp->reason) != WAIT_JOIN)
		gmp_yield();
}

static void app(void *arg)
{
	gmp_g *early, *late;

	(void)arg;
	never = gmp_chan_new(0, 0);
	handles = gmp_chan_new(sizeof(gmp_g *), 0);
	CHECK(never != NULL && handles != NULL);
	early = spawn(join_one);
	do
		late = spawn(wait_for_end);
	while (g_index((struct g *)late) < COUNTED);
	CHECK_EQ(gmp_chan_send(handles, &late), 0);
	wait_until_joining(early);
	gmp_yield(); /* late waits now */
	st_rlx(&searching, 1);
	CHECK(!cycles_watch());
	st_rlx(&searching, 0);
}

TEST(cycle_search_ignores_g_structs_made_after_count)
{
	run_procs(1, app, NULL);
}
