/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target for options: a setting is rejected with a message, or parsed exactly and within
 * bounds.
 *
 * The settings come from environment variables or from the struct.
 */
#include "fuzz.h"

#include <errno.h>

#include "base/options.h"

static const struct {
	const char *env;
	uint64_t least, most;
	int kind;
} table[] = {
#define COUNT 0
#define BYTES 1
#define SCHED 2
#define SLICE 3
#define OPTION(field, kind, env, fallback, min, max, help) { env, min, max, kind },
#include "base/options.def"
#undef OPTION
#undef COUNT
#undef BYTES
#undef SCHED
#undef SLICE
};

enum { N = sizeof(table) / sizeof(table[0]) };

/* Second parser, by libc except the unit letter.  Returns 0 if s is no valid value. */
static int parse(const char *s, int kind, uint64_t *v)
{
	static const char *const names[] = { "runnext", "local", "global", "thread" };
	char *end;

	for (unsigned i = 0; i < 4 && kind == 2; i++)
		if (strcmp(s, names[i]) == 0)
			return *v = i + 1, 1;
	if (kind == 2)
		return 0;
	if (kind == 3 && strcmp(s, "off") == 0)
		return *v = 0, 1;
	if (s[0] < '0' || s[0] > '9')
		return 0;
	errno = 0;
	*v = strtoull(s, &end, 10);
	if (errno)
		return 0;
	if (kind == 3 && *end) {
		uint64_t ns = strcmp(end, "us") == 0   ? 1000
			      : strcmp(end, "ms") == 0 ? 1000000
			      : strcmp(end, "s") == 0  ? 1000000000
						       : 0;

		return ns && !__builtin_mul_overflow(*v, ns, v);
	}
	const char *unit = kind == 1 && *end ? strchr("kKmMgG", *end) : NULL;

	if (unit) {
		for (int i = 0; i <= (int)(unit - strchr("kKmMgG", 'k')) / 2; i++)
			if (__builtin_mul_overflow(*v, (uint64_t)1024, v))
				return 0;
		end++;
	}
	return *end == '\0';
}

static uint64_t field(const struct options *o, int i)
{
	const uint64_t values[] = {
#define OPTION(field, kind, env, fallback, min, max, help) (uint64_t) o->c.field,
#include "base/options.def"
#undef OPTION
	};
	return values[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	unsigned which = choose(&in, N + 2);
	char text[128] = "";
	size_t n = (size_t)(in.end - in.at) < sizeof(text) - 1 ? (size_t)(in.end - in.at)
							       : sizeof(text) - 1;
	const char *why = NULL;
	struct options o;
	uint64_t v;

	for (int i = 0; i < N; i++)
		unsetenv(table[i].env);
	unsetenv("GMP_DEBUG");
	memcpy(text, in.at, n);
	if (which == N + 1) { /* the struct itself, with any size field */
		union {
			gmp_config c;
			unsigned char bytes[4096];
		} u;

		memset(&u, 0, sizeof(u));
		memcpy(&u, in.at, n);
		int err = options_load(&u.c, &o, &why);

		HOLDS(!err == !why);
		for (int i = 0; i < N && !err; i++)
			HOLDS(field(&o, i) >= table[i].least && field(&o, i) <= table[i].most);
		return 0;
	}
	setenv(which < N ? table[which].env : "GMP_DEBUG", text, 1);
	int err = options_load(NULL, &o, &why);

	HOLDS(!err == !why);
	if (which < N && text[0]) {
		int good = parse(text, table[which].kind, &v) &&
			   (v == 0 || v >= table[which].least) && v <= table[which].most;

		if (good && v)
			HOLDS(!err);
		if (!good)
			HOLDS(err == -EINVAL);
		if (!err && v && strcmp(table[which].env, "GMP_STACK_SIZE") != 0) /* rounded up */
			HOLDS(field(&o, (int)which) == v);
	}
	return 0;
}
