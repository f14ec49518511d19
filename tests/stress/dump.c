/* SPDX-License-Identifier: MIT */
/*
 * Dumps race with green threads that start, wait, wake, run and end.
 *
 * Checks that each block of a dump describes one green thread consistently, and that a dump causes
 * no lost wakeup.
 */
#define _GNU_SOURCE 1
#include "stress.h"

#include <fcntl.h>
#include <sys/mman.h>

#ifdef __clang__
#define CALL __attribute__((noinline))
#else
#define CALL __attribute__((noipa))
#endif

enum { KINDS = 4, CHILDREN = 64 };

static gmp_mutex mu;
static gmp_rwmutex rw;
static gmp_chan *ch;
static gmp_wg children;
static atomic_uint numbers;
static atomic_long ended, dumps, blocks, with_calls;
static atomic_int over;

CALL static void wait_somehow(struct rng *r)
{
	long v = 0;

	switch (draw(r, 8)) {
	case 0: gmp_sleep((int64_t)draw(r, 300) * US); break;
	case 1:
		gmp_mutex_lock(&mu);
		gmp_yield();
		gmp_mutex_unlock(&mu);
		break;
	case 2: gmp_chan_send_until(ch, &v, gmp_deadline(draw(r, 200) * US)); break;
	case 3: gmp_chan_recv_until(ch, &v, gmp_deadline(draw(r, 200) * US)); break;
	case 4:
		gmp_rwmutex_rlock(&rw);
		gmp_yield();
		gmp_rwmutex_runlock(&rw);
		break;
	case 5:
		if (gmp_rwmutex_lock_until(&rw, gmp_deadline(100 * US)) == 0)
			gmp_rwmutex_unlock(&rw);
		break;
	case 6: gmp_wg_wait_until(&children, gmp_deadline(draw(r, 200) * US)); break;
	default: gmp_yield();
	}
	__asm__ volatile("" ::: "memory");
}

static void live(void)
{
	struct rng r = rng_for(atomic_fetch_add(&numbers, 1));

	for (unsigned n = draw(&r, 4); n > 0; n--)
		wait_somehow(&r);
	atomic_fetch_add(&ended, 1);
	gmp_wg_done(&children);
}

/* Each green thread has the name of its entry function, so that check_block can compare them. */
#define KIND(name)                                                                                 \
	CALL static void name(UNUSED void *arg)                                                    \
	{                                                                                          \
		live();                                                                            \
		__asm__ volatile("" ::: "memory");                                                 \
	}
KIND(alpha)
KIND(beta)
KIND(gamma_)
KIND(delta)

CALL static void begin_and_end(UNUSED void *arg)
{
	atomic_fetch_add(&ended, 1);
}

CALL static void end_at_once(UNUSED void *arg)
{
	atomic_fetch_add(&ended, 1);
	__asm__ volatile("" ::: "memory"); /* keeps the code different from begin_and_end */
	__asm__ volatile("nop");
}

static const struct kind {
	const char *name;
	gmp_fn fn;
	const char *made_at;
} kinds[] = {
	{ "alpha", alpha, "; made at parent+0x" },
	{ "beta", beta, "; made at parent+0x" },
	{ "gamma_", gamma_, "; made at parent+0x" },
	{ "delta", delta, "; made at parent+0x" },
	{ "begin_and_end", begin_and_end, "; made at burst_of_one+0x" },
	{ "end_at_once", end_at_once, "; made at burst_of_other+0x" },
	{ NULL, NULL, NULL },
};

static void parent(void *arg)
{
	struct rng r = rng_for((uint64_t)(uintptr_t)arg);

	while (!atomic_load(&over)) {
		const struct kind *k = &kinds[draw(&r, KINDS)];
		gmp_attr a = GMP_ATTR_INIT;
		gmp_g *g[2];

		a.name = k->name;
		gmp_wg_add(&children, 2);
		CHECK_EQ(gmp_spawn(&g[0], k->fn, NULL, &a), 0);
		CHECK_EQ(gmp_spawn(&g[1], k->fn, NULL, &a), 0);
		CHECK_EQ(gmp_detach(g[1]), 0);
		join(g[0]);
	}
}

/*
 * Checks that name, entry, creation site and backtrace of a block belong to the same green thread.
 */
static void check_block(char *block)
{
	static const char at[] = " \"";
	char *name = strstr(block, at), *frame, text[64];
	const struct kind *k = kinds;

	CHECK(strncmp(block, "green thread ", 13) == 0);
	CHECK(name != NULL);
	while (k->name && strncmp(name + 2, k->name, strlen(k->name)) != 0)
		k++;
	if (!k->name)
		return;
	snprintf(text, sizeof(text), " \"%s\" (entry %s), ", k->name, k->name);
	if (strncmp(name, text, strlen(text)) != 0)
		check_failed("name and entry differ:\n%s", block);
	if (!strstr(block, k->made_at))
		check_failed("wrong creation site:\n%s", block);
	frame = strstr(block, "\n    #0 ");
	if (!frame)
		return;
	if (strstr(block,
		   ", running")) /* its end is a tail call: the entry function has no frame */
		return;
	if (!strstr(block, ", waiting for ") || !strstr(block, " s: "))
		check_failed("backtrace of a G that does not wait:\n%s", block);
	/* the last line is the frame of the entry function */
	while (frame[1] != '\0' && strchr(frame + 1, '\n')[1] != '\0')
		frame = strchr(frame + 1, '\n');
	snprintf(text, sizeof(text), " %s+0x", k->name);
	if (!strstr(frame, text))
		check_failed("backtrace of another G:\n%s", block);
	atomic_fetch_add(&with_calls, 1);
}

static void check_dump(char *text)
{
	char *at = strchr(text, '\n') + 1, *end;

	CHECK(strstr(text, " green threads: ") != NULL);
	for (; *at != '\0'; at = end + 1) {
		for (end = at; (end = strchr(end, '\n')) && end[1] == ' ';)
			end++;
		CHECK(end != NULL);
		char after = end[1];

		end[1] = '\0';
		check_block(at);
		end[1] = after;
		atomic_fetch_add(&blocks, 1);
	}
}

static void dump_and_check(UNUSED void *arg)
{
	int fd = memfd_create("dump", MFD_CLOEXEC), null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0 && null >= 0);
	while (!atomic_load(&over)) {
		off_t size;
		char *text;

		CHECK_EQ(ftruncate(fd, 0), 0);
		CHECK_EQ(lseek(fd, 0, SEEK_SET), 0);
		CHECK_EQ(gmp_dump(null), 0);
		CHECK_EQ(gmp_dump_all(fd), 0);
		size = lseek(fd, 0, SEEK_END);
		text = malloc((size_t)size + 1);
		CHECK(text != NULL);
		CHECK_EQ(pread(fd, text, (size_t)size, 0), size);
		text[size] = '\0';
		check_dump(text);
		free(text);
		atomic_fetch_add(&dumps, 1);
		gmp_yield();
	}
	close(fd);
	close(null);
}

static void app(UNUSED void *arg)
{
	struct ext_thread f;
	gmp_g *g[CHILDREN], *dumper = spawn(dump_and_check, NULL);
	long before = -1;

	ch = gmp_chan_new(sizeof(long), 1);
	for (int i = 0; i < CHILDREN; i++)
		g[i] = spawn(parent, (void *)(uintptr_t)(1000 + i));
	ext_thread_start(&f, dump_and_check, NULL);
	while (!stress_over()) {
		CHECK(atomic_load(&ended) > before); /* progress: no lost wakeup */
		before = atomic_load(&ended);
		gmp_sleep(500 * MS);
	}
	WAIT_FOR(atomic_load(&with_calls) > 0); /* on a slow machine, after the end of the time */
	atomic_store(&over, 1);
	for (int i = 0; i < CHILDREN; i++)
		join(g[i]);
	join(dumper);
	ext_thread_join(&f);
	CHECK_EQ(gmp_wg_wait(&children), 0);
	gmp_chan_free(ch);
}

TEST_PROCS(dump_during_spawns_and_exits_prints_consistent_blocks)
{
	stress_begin();
	run_procs(procs, app, NULL);
	fprintf(stderr, "%ld dumps, %ld blocks, %ld backtraces, %ld green threads\n",
		atomic_load(&dumps), atomic_load(&blocks), atomic_load(&with_calls),
		atomic_load(&ended));
}

/* --- green threads that only start and end: the reuse of g structs --- */

enum { DUMPERS = 4, BURST = 64 };

__attribute__((always_inline)) static inline void burst(const struct kind *k)
{
	for (int i = 0; i < BURST; i++) {
		gmp_attr a = GMP_ATTR_INIT;
		gmp_g *g;

		a.name = k->name;
		CHECK_EQ(gmp_spawn(&g, k->fn, NULL, &a), 0);
		CHECK_EQ(gmp_detach(g), 0);
	}
}

CALL static void burst_of_one(void)
{
	burst(&kinds[KINDS]);
}

CALL static void burst_of_other(void)
{
	burst(&kinds[KINDS + 1]);
}

static void burst_until_over(UNUSED void *arg)
{
	while (!atomic_load(&over)) {
		burst_of_one();
		gmp_yield();
		burst_of_other();
		gmp_yield();
	}
}

static void burst_app(UNUSED void *arg)
{
	struct ext_thread f[DUMPERS];
	gmp_g *g[CHILDREN];

	for (int i = 0; i < CHILDREN; i++)
		g[i] = spawn(burst_until_over, NULL);
	for (int i = 0; i < DUMPERS; i++)
		ext_thread_start(&f[i], dump_and_check, NULL);
	while (!stress_over())
		gmp_sleep(20 * MS);
	atomic_store(&over, 1);
	for (int i = 0; i < CHILDREN; i++)
		join(g[i]);
	for (int i = 0; i < DUMPERS; i++)
		ext_thread_join(&f[i]);
}

TEST_PROCS(dump_during_g_reuse_prints_matching_name_and_entry)
{
	stress_begin();
	run_procs(procs, burst_app, NULL);
	fprintf(stderr, "%ld dumps, %ld blocks, %ld green threads\n", atomic_load(&dumps),
		atomic_load(&blocks), atomic_load(&ended));
}
