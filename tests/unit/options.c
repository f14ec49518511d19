/* SPDX-License-Identifier: MIT */
/*
 * Tests that the options come from the struct, the environment and the defaults, in this order, and
 * that malformed values are refused.
 */
#define _GNU_SOURCE 1
#include "check.h"

#include "base/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"

static const char *why;

static void clear(void)
{
#define OPTION(field, kind, env, fallback, min, max, help) unsetenv(env);
#include "base/options.def"
#undef OPTION
	unsetenv("GMP_DEBUG");
}

/* An environment with one variable only. */
static int load_env(const char *env, const char *value, struct options *o)
{
	clear();
	if (env != NULL)
		setenv(env, value, 1);
	return options_load(NULL, o, &why);
}

TEST(options_defaults_come_from_table_and_machine)
{
	struct options o;

	CHECK_EQ(load_env(NULL, NULL, &o), 0);
	CHECK(why == NULL);
	CHECK_EQ(o.c.size, sizeof(gmp_config));
	CHECK_EQ(o.c.procs, os_cpus_allowed());
	CHECK_EQ(o.c.max_threads, 10000);
	CHECK_EQ(o.c.stack_size, 256 << 10);
	CHECK_EQ(o.c.flags, 0);
	CHECK(o.c.seed != 0);
	CHECK_EQ(o.c.max_green, 16 << 20);
	CHECK_EQ(o.c.sched, GMP_SCHED_RUNNEXT);
	CHECK(o.c.max_stack_memory == UINT64_MAX);
	CHECK_EQ(o.c.preempt_ns, 10000000);
	CHECK_EQ(o.debug, 0);
	CHECK_EQ(options_load(NULL, &o, NULL), 0);
}

TEST(options_zero_fields_come_from_environment)
{
	gmp_config c = GMP_CONFIG_INIT;
	struct options o;

	clear();
	setenv("GMP_PROCS", "3", 1);
	setenv("GMP_MAX_THREADS", "77", 1);
	setenv("GMP_STACK_SIZE", "65536", 1);
	setenv("GMP_SEED", "18446744073709551615", 1);
	setenv("GMP_MAX_GREEN", "1000", 1);
	setenv("GMP_SCHED", "local", 1);
	setenv("GMP_MAX_STACK_MEMORY", "3g", 1);
	CHECK_EQ(options_load(&c, &o, &why), 0);
	CHECK_EQ(o.c.procs, 3);
	CHECK_EQ(o.c.max_threads, 77);
	CHECK_EQ(o.c.stack_size, 65536);
	CHECK(o.c.seed == UINT64_MAX);
	CHECK_EQ(o.c.max_green, 1000);
	CHECK_EQ(o.c.sched, GMP_SCHED_LOCAL);
	CHECK(o.c.max_stack_memory == (uint64_t)3 << 30);
}

TEST(options_struct_overrides_environment)
{
	gmp_config c = GMP_CONFIG_INIT;
	struct options o;

	clear();
	setenv("GMP_PROCS", "3", 1);
	setenv("GMP_SEED", "not a number, not read", 1);
	c.procs = 5;
	c.seed = 42;
	CHECK_EQ(options_load(&c, &o, &why), 0);
	CHECK_EQ(o.c.procs, 5);
	CHECK_EQ(o.c.seed, 42);
}

TEST(options_empty_variable_counts_as_unset)
{
	struct options o;

	CHECK_EQ(load_env("GMP_MAX_THREADS", "", &o), 0);
	CHECK_EQ(o.c.max_threads, 10000);
	CHECK_EQ(load_env("GMP_DEBUG", "", &o), 0);
}

TEST(options_malformed_variable_is_refused_with_name)
{
	static const char *const bad[] = { "x",
					   "4x",
					   "-1",
					   "+1",
					   " 1",
					   "1 ",
					   "0x10",
					   "1.5",
					   "0",
					   "1k",
					   "99999999999999999999",
					   "18446744073709551617",
					   "1025" };
	struct options o;

	for (size_t i = 0; i < countof(bad); i++) {
		CHECK_EQ(load_env("GMP_PROCS", bad[i], &o), -EINVAL);
		CHECK(why != NULL && strncmp(why, "GMP_PROCS:", strlen("GMP_PROCS:")) == 0);
	}
}

TEST(options_stack_size_suffixes_are_parsed)
{
	static const struct {
		const char *text;
		size_t size;
	} good[] = { { "64k", 64 << 10 }, { "64K", 64 << 10 }, { "2m", 2 << 20 },
		     { "2M", 2 << 20 },   { "1g", 1 << 30 },   { "1G", 1 << 30 } };
	static const char *const bad[] = { "k",  "1kb",          "1t",        "1 k",
					   "2g", "17179869184g", "1073741825" };
	struct options o;

	for (size_t i = 0; i < countof(good); i++) {
		CHECK_EQ(load_env("GMP_STACK_SIZE", good[i].text, &o), 0);
		CHECK_EQ(o.c.stack_size, good[i].size);
	}
	for (size_t i = 0; i < countof(bad); i++)
		CHECK_EQ(load_env("GMP_STACK_SIZE", bad[i], &o), -EINVAL);
}

TEST(options_stack_size_is_rounded_up_to_power_of_two)
{
	static const size_t in[] = { 1, 16383, 16384, 16385, 100000, (1 << 30) - 1, 1 << 30 };
	static const size_t out[] = { 16384, 16384, 16384, 32768, 131072, 1 << 30, 1 << 30 };
	gmp_config c = GMP_CONFIG_INIT;
	struct options o;

	clear();
	for (size_t i = 0; i < countof(in); i++) {
		c.stack_size = in[i];
		CHECK_EQ(options_load(&c, &o, &why), 0);
		CHECK_EQ(o.c.stack_size, out[i]);
	}
	c.stack_size = ((size_t)1 << 30) + 1;
	CHECK_EQ(options_load(&c, &o, &why), -EINVAL);
	c.stack_size = SIZE_MAX;
	CHECK_EQ(options_load(&c, &o, &why), -EINVAL);
}

/* One field of an otherwise empty struct. */
#define LOAD_FIELD(field, value, o)                                                                \
	({                                                                                         \
		gmp_config c_ = GMP_CONFIG_INIT;                                                   \
		c_.field = (value);                                                                \
		options_load(&c_, (o), &why);                                                      \
	})

TEST(options_field_out_of_range_returns_einval)
{
	struct options o;

	clear();
	CHECK_EQ(LOAD_FIELD(procs, -1, &o), -EINVAL);
	CHECK(strncmp(why, "gmp_config.procs:", strlen("gmp_config.procs:")) == 0);
	CHECK_EQ(LOAD_FIELD(procs, INT32_MIN, &o), -EINVAL);
	CHECK_EQ(LOAD_FIELD(procs, 1025, &o), -EINVAL);
	CHECK_EQ(LOAD_FIELD(procs, 1024, &o), 0);
	CHECK_EQ(LOAD_FIELD(max_threads, -1, &o), -EINVAL);
	CHECK_EQ(LOAD_FIELD(max_threads, 1000001, &o), -EINVAL);
	CHECK_EQ(LOAD_FIELD(max_threads, 1000000, &o), 0);
	CHECK_EQ(LOAD_FIELD(max_green, (64u << 20) + 1, &o), -EINVAL);
	CHECK_EQ(LOAD_FIELD(max_green, 64u << 20, &o), 0);
	CHECK_EQ(LOAD_FIELD(flags, GMP_VIRTUAL_TIME, &o), 0);
	CHECK_EQ(o.debug, DEBUG_virtual);
	CHECK_EQ(LOAD_FIELD(flags, GMP_COOPERATIVE, &o), 0);
	CHECK_EQ(o.c.flags, GMP_COOPERATIVE);
	CHECK_EQ(LOAD_FIELD(flags, 1u << 31, &o), -EINVAL);
	CHECK_EQ(LOAD_FIELD(preempt_ns, -1, &o), -EINVAL);
	CHECK_EQ(LOAD_FIELD(preempt_ns, 999999, &o), -EINVAL);
	CHECK_STR(why, "gmp_config.preempt_ns: 999999 is refused; it takes: ns of a time slice, "
		       "1 ms to 1 hour; GMP_PREEMPT also as 10ms, or off");
	CHECK_EQ(LOAD_FIELD(preempt_ns, 1000000, &o), 0);
	CHECK_EQ(LOAD_FIELD(preempt_ns, INT64_MAX, &o), -EINVAL);
	CHECK_EQ(LOAD_FIELD(sched, -1, &o), -EINVAL);
	CHECK_EQ(LOAD_FIELD(sched, GMP_SCHED_THREAD + 1, &o), -EINVAL);
}

TEST(options_slice_takes_units_and_off)
{
	static const struct {
		const char *text;
		int64_t ns;
	} good[] = { { "1000000", 1000000 },
		     { "1500us", 1500000 },
		     { "20ms", 20000000 },
		     { "3600s", 3600000000000 } };
	static const char *const bad[] = { "999us",
					   "10m",
					   "ms",
					   "10 ms",
					   "3601s",
					   "on",
					   "offx",
					   "99999999999999999s",
					   "9223372036854775807",
					   "18446744073709551615" }; /* is no "off" */
	struct options o;

	for (size_t i = 0; i < countof(good); i++) {
		CHECK_EQ(load_env("GMP_PREEMPT", good[i].text, &o), 0);
		CHECK_EQ(o.c.preempt_ns, good[i].ns);
		CHECK_EQ(o.c.flags, 0);
	}
	CHECK_EQ(load_env("GMP_PREEMPT", "off", &o), 0);
	CHECK_EQ(o.c.flags, GMP_COOPERATIVE);
	CHECK_EQ(o.c.preempt_ns, 10000000);
	for (size_t i = 0; i < countof(bad); i++)
		CHECK_EQ(load_env("GMP_PREEMPT", bad[i], &o), -EINVAL);
}

TEST(options_sched_is_parsed_from_word)
{
	static const char *const bad[] = { "1", "Local", "localx", "loca", " local", "none" };
	struct options o;

	CHECK_EQ(load_env("GMP_SCHED", "runnext", &o), 0);
	CHECK_EQ(o.c.sched, GMP_SCHED_RUNNEXT);
	CHECK_EQ(load_env("GMP_SCHED", "global", &o), 0);
	CHECK_EQ(o.c.sched, GMP_SCHED_GLOBAL);
	for (size_t i = 0; i < countof(bad); i++) {
		CHECK_EQ(load_env("GMP_SCHED", bad[i], &o), -EINVAL);
		CHECK(strncmp(why, "GMP_SCHED:", strlen("GMP_SCHED:")) == 0);
	}
}

TEST(options_size_selects_version_of_struct)
{
	struct {
		gmp_config c;
		char more[64];
	} newer = { .c = GMP_CONFIG_INIT };
	gmp_config older = GMP_CONFIG_INIT;
	struct options o;

	clear();
	CHECK_EQ(LOAD_FIELD(size, 0, &o), -EINVAL);
	CHECK_EQ(LOAD_FIELD(size, 1, &o), -EINVAL);
	CHECK_EQ(LOAD_FIELD(size, SIZE_MAX, &o), -E2BIG);

	older.size = offsetof(gmp_config, stack_size);
	older.procs = 7;
	older.stack_size = SIZE_MAX; /* beyond its size: not read */
	CHECK_EQ(options_load(&older, &o, &why), 0);
	CHECK_EQ(o.c.procs, 7);
	CHECK_EQ(o.c.stack_size, 256 << 10);
	CHECK_EQ(o.c.size, sizeof(gmp_config));

	newer.c.size = sizeof(newer);
	newer.c.procs = 9;
	CHECK_EQ(options_load(&newer.c, &o, &why), 0);
	CHECK_EQ(o.c.procs, 9);
	newer.more[63] = 1;
	CHECK_EQ(options_load(&newer.c, &o, &why), -E2BIG);
}

TEST(options_seed_differs_per_start_unless_given)
{
	struct options a, b;

	CHECK_EQ(load_env(NULL, NULL, &a), 0);
	CHECK_EQ(load_env(NULL, NULL, &b), 0);
	CHECK(a.c.seed != b.c.seed);
	CHECK_EQ(load_env("GMP_SEED", "5", &a), 0);
	CHECK_EQ(a.c.seed, 5);
	CHECK_EQ(load_env("GMP_SEED", "0", &a), 0);
	CHECK(a.c.seed != 0);
}

TEST(options_debug_words_set_bits)
{
	struct options o;

	CHECK_EQ(load_env("GMP_DEBUG", "stack", &o), 0);
	CHECK_EQ(o.debug, DEBUG_stack);
	CHECK_EQ(load_env("GMP_DEBUG", "sched,stack,", &o), 0);
	CHECK_EQ(o.debug, DEBUG_sched | DEBUG_stack);
	CHECK_EQ(load_env("GMP_DEBUG", ",,stack", &o), 0);
	CHECK_EQ(load_env("GMP_DEBUG", "stac", &o), -EINVAL);
	CHECK(strncmp(why, "GMP_DEBUG:", strlen("GMP_DEBUG:")) == 0);
	CHECK_EQ(load_env("GMP_DEBUG", "stacks", &o), -EINVAL);
	CHECK_EQ(load_env("GMP_DEBUG", "stack sched", &o), -EINVAL);
}

TEST(options_debug_unknown_word_is_named_in_error)
{
	struct options o;

	CHECK_EQ(load_env("GMP_DEBUG", "stack,chek,sched", &o), -EINVAL);
	CHECK(strstr(why, "GMP_DEBUG: unknown word \"chek\"; known: chaos, check, ") == why);
#define DEBUG_WORD(word, help) CHECK(strstr(strchr(why, ';'), #word) != NULL);
#include "base/options.def"
#undef DEBUG_WORD
	CHECK_EQ(load_env("GMP_DEBUG", "0123456789012345678901234567890123456789", &o), -EINVAL);
	CHECK(strstr(why, "\"01234567890123456789012345678901...\";") != NULL);
	CHECK_EQ(load_env("GMP_DEBUG", "a\nb", &o), -EINVAL);
	CHECK(strstr(why, "\"a?b\";") != NULL);
}

TEST(options_debug_value_sets_field_and_bit)
{
	struct options o;

	CHECK_EQ(load_env("GMP_DEBUG", "schedtrace=250,stack,scheddetail=1", &o), 0);
	CHECK_EQ(o.debug, DEBUG_schedtrace | DEBUG_stack | DEBUG_scheddetail);
	CHECK_EQ(o.schedtrace, 250);
	CHECK_EQ(o.scheddetail, 1);
	CHECK_EQ(load_env("GMP_DEBUG", "scheddetail=0", &o), 0);
	CHECK_EQ(o.scheddetail, 0);
	CHECK_EQ(load_env("GMP_DEBUG", "schedtrace=3600000", &o), 0);
	CHECK_EQ(o.schedtrace, 3600000);
	CHECK_EQ(load_env("GMP_DEBUG", "schedtrace=5,,schedtrace=007", &o), 0);
	CHECK_EQ(o.schedtrace, 7);
	CHECK_EQ(load_env("GMP_DEBUG", "stack", &o), 0);
	CHECK_EQ(o.schedtrace, 0);
}

TEST(options_debug_value_malformed_is_refused)
{
	static const char *const bad[] = {
		"schedtrace",       "schedtrace=",     "schedtrace=0",
		"schedtrace=x",     "schedtrace=1x",   "schedtrace=3600001",
		"schedtrace=-1",    "schedtrace= 1",   "schedtrace=18446744073709551617",
		"schedtrace=1=1",   "schedtrace=10ms", "schedtrace=1000000000000000000000000000001",
		"schedtrace,sched", "scheddetail=2",   "scheddetail",
	};
	struct options o;

	for (size_t i = 0; i < countof(bad); i++) {
		CHECK_EQ(load_env("GMP_DEBUG", bad[i], &o), -EINVAL);
		CHECK(strncmp(why, "GMP_DEBUG: \"sched", strlen("GMP_DEBUG: \"sched")) == 0);
		CHECK(strstr(why, "=N, N from ") != NULL);
	}
	CHECK_EQ(load_env("GMP_DEBUG", "sched,schedtrace=0,stack", &o), -EINVAL);
	CHECK_STR(why, "GMP_DEBUG: \"schedtrace=0\" is refused; it takes: schedtrace=N, "
		       "N from 1 to 3600000");
}

TEST(options_debug_value_of_plain_word_is_refused)
{
	struct options o;

	CHECK_EQ(load_env("GMP_DEBUG", "stack=1", &o), -EINVAL);
	CHECK_STR(why, "GMP_DEBUG: \"stack=1\" is refused; stack takes no value");
	CHECK_EQ(load_env("GMP_DEBUG", "=1", &o), -EINVAL);
	CHECK(strstr(why, "unknown word \"=1\"") != NULL);
	CHECK_EQ(load_env("GMP_DEBUG", "schedtracer=1", &o), -EINVAL);
	CHECK(strstr(why, "unknown word \"schedtracer=1\"") != NULL);
	CHECK(strstr(why, ", schedtrace=N, ") != NULL);
}

TEST(options_debug_words_are_sorted)
{
	static const char *const words[] = {
#define DEBUG_WORD(word, help) #word,
#include "base/options.def"
#undef DEBUG_WORD
	};

	for (size_t i = 1; i < sizeof(words) / sizeof(words[0]); i++)
		CHECK(strcmp(words[i - 1], words[i]) < 0);
}

TEST(options_chaos_reduces_default_stack_size)
{
	gmp_config c = GMP_CONFIG_INIT;
	struct options o;

	CHECK_EQ(load_env("GMP_DEBUG", "chaos", &o), 0);
	CHECK_EQ(o.c.stack_size, STACK_SIZE_CHAOS);
	setenv("GMP_STACK_SIZE", "128k", 1);
	CHECK_EQ(options_load(NULL, &o, &why), 0);
	CHECK_EQ(o.c.stack_size, 128 << 10);
	unsetenv("GMP_STACK_SIZE");
	c.stack_size = 256 << 10;
	CHECK_EQ(options_load(&c, &o, &why), 0);
	CHECK_EQ(o.c.stack_size, 256 << 10);
}
