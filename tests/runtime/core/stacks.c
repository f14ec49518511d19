/* SPDX-License-Identifier: MIT */
/*
 * Tests stacks: usable size, return of memory to the kernel, and the state that stays with a green
 * thread across switches (registers, floating-point control words, frames).
 */
#define _GNU_SOURCE
#include "backtrace.h"

#include "util.h"

static atomic_int count;
static gmp_wg gate;

/* Fills about `bytes` of stack in frames of a little over a KiB and checks them on the way back. */
__attribute__((noinline)) static unsigned dive(size_t bytes, int yield)
{
	volatile unsigned char pad[1024];
	unsigned char tag = (unsigned char)(bytes >> 10);
	unsigned sum;

	for (size_t i = 0; i < sizeof(pad); i += 64)
		pad[i] = (unsigned char)(tag + i / 64);
	if (bytes <= sizeof(pad)) {
		if (yield)
			gmp_yield();
		sum = 1;
	} else {
		sum = 1 + dive(bytes - sizeof(pad), yield);
	}
	for (size_t i = 0; i < sizeof(pad); i += 64)
		CHECK_EQ(pad[i], (unsigned char)(tag + i / 64));
	return sum;
}

struct depth {
	size_t bytes;
};

static void dive_and_yield(void *arg)
{
	struct depth *d = arg;

	CHECK_EQ(dive(d->bytes, 1), (d->bytes + 1023) / 1024);
	atomic_fetch_add(&count, 1);
}

RT(stack_default_size_holds_200_kib_recursion)
{
	struct depth d = { SLOW ? 64 << 10 : 200 << 10 };
	gmp_g *g[50];

	for (int i = 0; i < 50; i++)
		g[i] = spawn(dive_and_yield, &d);
	for (int i = 0; i < 50; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&count), 50);
}

RT(stack_of_every_size_holds_most_of_it)
{
	for (size_t size = 64 << 10; size <= (size_t)256 << 20; size *= 4) {
		struct depth d = { SLOW ? size / 4 : size / 8 * 6 };
		gmp_attr a = GMP_ATTR_INIT;
		gmp_g *g;

		a.stack_size = size;
		CHECK_EQ(gmp_spawn(&g, dive_and_yield, &d, &a), 0);
		join(g);
	}
	CHECK_EQ(atomic_load(&count), 7);
}

static void dive_here(void *arg)
{
	dive_and_yield(arg);
}

TEST(stack_size_of_config_and_environment_applies)
{
	struct depth d = { (size_t)24 << 20 };
	gmp_config c = GMP_CONFIG_INIT;

	c.stack_size = (size_t)64 << 20;
	CHECK_EQ(gmp_run(dive_here, &d, &c), 0);
	CHECK_EQ(setenv("GMP_STACK_SIZE", "67108864", 1), 0);
	CHECK_EQ(gmp_run(dive_here, &d, NULL), 0);
	CHECK_EQ(atomic_load(&count), 2);
}

RT(stacks_of_different_sizes_work_side_by_side)
{
	gmp_g *g[100];
	struct depth d[100];

	for (int i = 0; i < 100; i++) {
		gmp_attr a = GMP_ATTR_INIT;

		a.stack_size = (size_t)(64 << 10) << i % 5;
		d[i].bytes = a.stack_size / 4;
		CHECK_EQ(gmp_spawn(&g[i], dive_and_yield, &d[i], &a), 0);
	}
	for (int i = 0; i < 100; i++)
		join(g[i]);
	CHECK_EQ(atomic_load(&count), 100);
}

/* ---- memory returned to the kernel */

static void dive_and_wait(void *arg)
{
	struct depth *d = arg;

	/* The deep frames have returned before the G parks. */
	dive(d->bytes, 0);
	atomic_fetch_add(&count, 1);
	CHECK_EQ(gmp_wg_wait(&gate), 0);
	dive(d->bytes, 0);
}

static void wait_for_rss_below(long kb)
{
	int64_t limit = gmp_deadline(15 * SEC);

	while (rss_kb() >= kb) {
		CHECK(gmp_now() < limit);
		gmp_sleep(100 * MS);
	}
}

RT(stack_unused_part_of_parked_g_is_returned_to_kernel)
{
	enum { N = 500 };
	struct depth d = { 192 << 10 };
	long before = rss_kb(), deep;
	gmp_g *g[N];

	if (SLOW)
		check_skip("a sanitizer or Valgrind has its own memory");
	gmp_wg_add(&gate, 1);
	for (int i = 0; i < N; i++)
		g[i] = spawn(dive_and_wait, &d);
	WAIT_FOR(atomic_load(&count) == N);
	wait_parked(N);
	deep = rss_kb();
	if (deep - before >= N * 96) /* otherwise it is returned already */
		wait_for_rss_below(before + N * 24);
	CHECK(rss_kb() < before + N * 96);
	/* The green threads can use deep stacks again. */
	gmp_wg_done(&gate);
	for (int i = 0; i < N; i++)
		join(g[i]);
}

__attribute__((noinline)) static void wait_deep(size_t bytes)
{
	volatile unsigned char pad[1024];

	for (size_t i = 0; i < sizeof(pad); i++)
		pad[i] = (unsigned char)(bytes >> 10);
	if (bytes > sizeof(pad)) {
		wait_deep(bytes - sizeof(pad));
	} else {
		atomic_fetch_add(&count, 1);
		CHECK_EQ(gmp_wg_wait(&gate), 0);
	}
	for (size_t i = 0; i < sizeof(pad); i++)
		CHECK_EQ(pad[i], (unsigned char)(bytes >> 10));
}

static void wait_deep_down(void *arg)
{
	struct depth *d = arg;

	wait_deep(d->bytes);
}

RT(stack_memory_after_burst_is_returned_to_kernel)
{
	enum { N = 1000 };
	struct depth d = { 160 << 10 };
	long before = rss_kb();
	static gmp_g *g[N];

	if (SLOW)
		check_skip("a sanitizer or Valgrind has its own memory");
	gmp_wg_add(&gate, 1);
	for (int i = 0; i < N; i++)
		g[i] = spawn(wait_deep_down, &d);
	WAIT_FOR(atomic_load(&count) == N);
	CHECK(rss_kb() >= before + N * 150);
	gmp_wg_done(&gate);
	for (int i = 0; i < N; i++)
		join(g[i]);
	wait_for_rss_below(before + N * 24);
	CHECK(stats().trimmed_bytes > 0);
	/* Stacks can be allocated again. */
	atomic_store(&count, 0);
	gmp_wg_add(&gate, 1);
	for (int i = 0; i < N; i++)
		g[i] = spawn(wait_deep_down, &d);
	WAIT_FOR(atomic_load(&count) == N);
	gmp_wg_done(&gate);
	for (int i = 0; i < N; i++)
		join(g[i]);
}

RT(stack_of_parked_g_survives_trimming)
{
	enum { N = 100 };
	struct depth d = { 100 << 10 };
	gmp_g *g[N];

	if (SANITIZED)
		d.bytes = 40 << 10;
	gmp_wg_add(&gate, 1);
	for (int i = 0; i < N; i++)
		g[i] = spawn(wait_deep_down, &d);
	WAIT_FOR(atomic_load(&count) == N);
	gmp_sleep(4 * SEC);
	gmp_wg_done(&gate);
	for (int i = 0; i < N; i++)
		join(g[i]); /* wait_deep checks every byte */
}

/* ---- state per green thread */

/*
 * The machine's part, in stacks_<arch>.h:
 *
 *   control_of(i)      control words number i, with or without sticky flags
 *   control(),         the control words of this thread without the sticky flags; set them
 *     set_control()
 *   CONTROL_PLAIN      as a process begins with them
 *   CONTROL_UP         the same, rounding upwards
 *   CONTROL_STICKY     mask of the sticky flags
 *   registers_lost()   see below
 */
#if defined(__x86_64__)
#include "stacks_x86_64.h"
#elif defined(__aarch64__)
#include "stacks_aarch64.h"
#elif defined(__riscv)
#include "stacks_riscv64.h"
#endif

static void keep_fp_control(void *arg)
{
	uint64_t own = control_of((unsigned)(uintptr_t)arg);

	set_control(own);
	for (int n = 0; n < 200; n++) {
		if (n % 50 == 49)
			gmp_sleep(50 * US);
		else
			gmp_yield();
		CHECK_EQ(control(), own & ~CONTROL_STICKY);
	}
	set_control(CONTROL_PLAIN);
}

RT(fp_control_words_are_per_green_thread)
{
	check_skip_on_valgrind("Valgrind does not keep all control words");
	gmp_g *g[32];

	for (int i = 0; i < 32; i++)
		g[i] = spawn(keep_fp_control, (void *)(uintptr_t)i);
	for (int i = 0; i < 32; i++)
		join(g[i]);
	CHECK_EQ(control(), CONTROL_PLAIN);
}

static void round_up(UNUSED void *arg)
{
	volatile double third;
	volatile double one = 1, three = 3;
	double up, seen;

	set_control(CONTROL_UP);
	third = one / three;
	up = third;
	gmp_yield();
	third = one / three;
	seen = third;
	CHECK(seen == up);
	set_control(CONTROL_PLAIN);
	third = one / three;
	seen = third;
	CHECK(seen < up);
}

RT(fp_rounding_mode_survives_switch)
{
	check_skip_on_valgrind("Valgrind does not keep all control words");
	gmp_g *g[10];

	for (int i = 0; i < 10; i++)
		g[i] = spawn(round_up, NULL);
	for (int i = 0; i < 10; i++)
		join(g[i]);
}

/* Returns how many callee-saved registers have lost their value over a call of fn. */
int registers_lost(uintptr_t seed, void (*fn)(void));

static void short_sleep(void)
{
	gmp_sleep(20 * US);
}

static void keep_registers(void *arg)
{
	for (uintptr_t n = 0; n < 200; n++)
		CHECK_EQ(registers_lost(((uintptr_t)arg << 32) + n * 16,
					n % 20 == 19 ? short_sleep : gmp_yield),
			 0);
}

RT(callee_saved_registers_survive_switch)
{
	gmp_g *g[16];

	for (int i = 0; i < 16; i++)
		g[i] = spawn(keep_registers, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < 16; i++)
		join(g[i]);
}

static void check_alignment(UNUSED void *arg)
{
	CHECK_EQ((uintptr_t)__builtin_frame_address(0) & 15, 0);
	gmp_yield();
	CHECK_EQ((uintptr_t)__builtin_frame_address(0) & 15, 0);
}

RT(stack_is_aligned_to_16_bytes)
{
	gmp_g *g[8];

	check_alignment(NULL);
	for (int i = 0; i < 8; i++)
		g[i] = spawn(check_alignment, NULL);
	for (int i = 0; i < 8; i++)
		join(g[i]);
}

static void print_numbers(UNUSED void *arg)
{
	char buf[100];

	snprintf(buf, sizeof(buf), "%.10f %Lf %d", 1.0 / 3.0, 0.5L, 42);
	gmp_yield();
	CHECK_STR(buf, "0.3333333333 0.500000 42");
}

RT(stack_default_size_holds_printf)
{
	gmp_g *g[8];

	for (int i = 0; i < 8; i++)
		g[i] = spawn(print_numbers, NULL);
	for (int i = 0; i < 8; i++)
		join(g[i]);
}

/* ---- backtraces */

static int frames;
static void *trace[64];

__attribute__((noinline)) static void look_back(void **from_entry)
{
	*from_entry = __builtin_return_address(0);
	frames = backtrace(trace, 64);
	__asm__ volatile("" ::: "memory");
}

static void trace_entry(UNUSED void *arg)
{
	void *ra = NULL;
	int at = -1;

	gmp_yield();
	look_back(&ra);
	CHECK(frames > 1);
	CHECK(frames < 64);
	for (int i = 0; i < frames; i++) {
		if (trace[i] == ra)
			at = i;
	}
	CHECK(at >= 0);
	/* Below the entry at most the runtime's own first frame or two. */
	CHECK(frames - at <= 3);
}

RT(backtrace_ends_at_entry)
{
	for (int i = 0; i < 4; i++)
		join(spawn(trace_entry, NULL));
}
