/* SPDX-License-Identifier: MIT */
/*
 * Settings: reads gmp_config and the environment, checks them, and fills in defaults.
 *
 * Invariants
 *   - A field of gmp_config that is not 0 takes precedence over the environment, and the
 *     environment over the default of the table.
 *   - An invalid setting makes the start fail, whether it comes from the struct or the
 *     environment. The message has its name and its value.
 *   - A program with more privileges than its caller (set-user-ID, set-group-ID, file
 *     capabilities) ignores the environment: secure_getenv.
 */
#include "base/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os.h"

enum { MOST_QUOTED = 32 }; /* bytes of a refused value in a message */

enum kind { COUNT, BYTES, SCHED, SLICE };

/* The value of a SLICE `off`. */
static const uint64_t SLICE_OFF = UINT64_MAX;

struct option {
	const char *env;
	enum kind kind;
	uint64_t fallback, min, max;
	const char *field, *help;
};

static const struct option table[] = {
#define OPTION(field, kind, env, fallback, min, max, help)                                         \
	{ env, kind, fallback, min, max, "gmp_config." #field, help },
#include "base/options.def"
#undef OPTION
};

static const char *const sched_names[] = {
#define SCHED_NAME(name) #name,
#include "base/options.def"
#undef SCHED_NAME
};

static const struct debug_word {
	const char *word, *value, *help; /* value: "=N", or "" for a word without a value */
	uint64_t min, max;
	size_t at; /* of the value in struct options */
} debug_words[] = {
#define DEBUG_WORD(word, help) { #word, "", help, 0, 0, 0 },
#define DEBUG_VALUE(word, min, max, help)                                                          \
	{ #word, "=N", help, min, max, offsetof(struct options, word) },
#include "base/options.def"
#undef DEBUG_VALUE
#undef DEBUG_WORD
};

/* The text of a failed start; valid until the next start. */
static char refusal[360];

/* Returns err, with *why set to the formatted text. */
static __attribute__((format(printf, 3, 4))) int refuse(int err, const char **why, const char *fmt,
							...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(refusal, sizeof(refusal), fmt, ap);
	va_end(ap);
	*why = refusal;
	return err;
}

/* Copy at most n bytes of s, cut off after MOST_QUOTED, in a form that can be printed. */
static const char *quote(const char *s, size_t n)
{
	static char text[MOST_QUOTED + 4];
	size_t i = 0;

	for (; i < n && i < MOST_QUOTED && s[i] != '\0'; i++)
		text[i] = s[i] >= ' ' && s[i] <= '~' ? s[i] : '?';
	strcpy(text + i, i < n && s[i] != '\0' ? "..." : "");
	return text;
}

static bool parse_sched(const char *s, uint64_t *out)
{
	for (*out = 1; *out <= countof(sched_names); ++*out)
		if (strcmp(s, sched_names[*out - 1]) == 0)
			return true;
	return false;
}

/* *out: v times the unit s, in ns. */
static bool parse_unit(const char *s, uint64_t v, uint64_t *out)
{
	uint64_t unit = strcmp(s, "us") == 0   ? US
			: strcmp(s, "ms") == 0 ? MS
			: strcmp(s, "s") == 0  ? S
					       : 0;

	return unit != 0 && !__builtin_mul_overflow(v, unit, out);
}

/* Accepts digits and, for BYTES and SLICE, a suffix. Signs, blanks and other bases are refused. */
static bool option_parse(const char *s, enum kind kind, uint64_t *out)
{
	size_t digits = strspn(s, "0123456789");
	uint64_t v;
	unsigned shift = 0;

	if (kind == SCHED)
		return parse_sched(s, out);
	if (kind == SLICE && strcmp(s, "off") == 0) {
		*out = SLICE_OFF;
		return true;
	}
	if (!parse_decimal(s, digits, UINT64_MAX, &v))
		return false;
	s += digits;
	if (kind == BYTES && *s != '\0') {
		switch (*s++ | 0x20) {
		case 'k': shift = 10; break;
		case 'm': shift = 20; break;
		case 'g': shift = 30; break;
		default: return false;
		}
	}
	if (kind == SLICE && *s != '\0')
		return parse_unit(s, v, out);
	*out = v << shift;
	return *s == '\0' && *out >> shift == v && (kind != SLICE || v != SLICE_OFF);
}

/* *v: the field of gmp_config on entry (a negative field is converted to a large number), the
 * setting on return. 0 or -EINVAL. */
static int load_one(const struct option *o, uint64_t *v, const char **why)
{
	const char *env = secure_getenv(o->env);

	if (*v != 0)
		return *v >= o->min && *v <= o->max
			       ? 0
			       : refuse(-EINVAL, why, "%s: %lld is refused; it takes: %s", o->field,
					(long long)*v, o->help);
	if (env == NULL || *env == '\0') {
		*v = o->fallback;
		return 0;
	}
	if (option_parse(env, o->kind, v) &&
	    ((*v >= o->min && *v <= o->max) || (o->kind == SLICE && *v == SLICE_OFF)))
		return 0;
	return refuse(-EINVAL, why, "%s: \"%s\" is refused; it takes: %s", o->env,
		      quote(env, SIZE_MAX), o->help);
}

/* s, n: the unknown word of GMP_DEBUG. */
static int refuse_word(const char *s, size_t n, const char **why)
{
	char known[256];
	size_t at = 0;

	for (size_t i = 0; i < countof(debug_words) && at < sizeof(known); i++)
		at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s%s", i ? ", " : "",
				       debug_words[i].word, debug_words[i].value);
	return refuse(-EINVAL, why, "GMP_DEBUG: unknown word \"%s\"; known: %s", quote(s, n),
		      known);
}

/* s, n: the word d with a value that it does not take, or without its value. */
static int refuse_value(const struct debug_word *d, const char *s, size_t n, const char **why)
{
	if (*d->value == '\0')
		return refuse(-EINVAL, why, "GMP_DEBUG: \"%s\" is refused; %s takes no value",
			      quote(s, n), d->word);
	return refuse(-EINVAL, why,
		      "GMP_DEBUG: \"%s\" is refused; it takes: %s=N, N from %llu to %llu",
		      quote(s, n), d->word, (unsigned long long)d->min, (unsigned long long)d->max);
}

/* Store the word in the n bytes of s. 0 or -EINVAL. */
static int load_word(const char *s, size_t n, struct options *out, const char **why)
{
	const char *value = memchr(s, '=', n);
	size_t name = value != NULL ? (size_t)(value - s) : n, i = 0;

	while (i < countof(debug_words) &&
	       (strlen(debug_words[i].word) != name || strncmp(s, debug_words[i].word, name) != 0))
		i++;
	if (i == countof(debug_words))
		return refuse_word(s, n, why);
	const struct debug_word *d = &debug_words[i];
	uint64_t v = 0;

	if ((*d->value != '\0') != (value != NULL) ||
	    (value != NULL && (!parse_decimal(value + 1, n - name - 1, d->max, &v) || v < d->min)))
		return refuse_value(d, s, n, why);
	if (value != NULL)
		memcpy((char *)out + d->at, &v, sizeof(v));
	out->debug |= 1u << i;
	return 0;
}

static int load_debug(struct options *out, const char **why)
{
	const char *s = secure_getenv("GMP_DEBUG");
	int err = 0;

	for (; err == 0 && s != NULL && *s != '\0'; s += *s == ',') {
		size_t n = strcspn(s, ",");

		err = n > 0 ? load_word(s, n, out, why) : 0;
		s += n;
	}
	return err;
}

void options_help(int fd)
{
	dprintf(fd, "gmp: GMP_DEBUG takes these words, separated by commas:\n");
	for (size_t i = 0; i < countof(debug_words); i++)
		dprintf(fd, "gmp:   %s%-*s %s\n", debug_words[i].word,
			13 - (int)strlen(debug_words[i].word), debug_words[i].value,
			debug_words[i].help);
}

/* The struct may be of an older version, which has fewer fields, or of a newer one. */
static int copy_config(const gmp_config *user, gmp_config *out, const char **why)
{
	const unsigned char *bytes = (const unsigned char *)user;

	if (user->size < sizeof(user->size) || user->size > PAGE)
		return refuse(user->size > PAGE ? -E2BIG : -EINVAL, why,
			      "gmp_config.size: %zu is refused; initialize the struct by "
			      "GMP_CONFIG_INIT",
			      user->size);
	for (size_t i = sizeof(*out); i < user->size; i++) {
		if (bytes[i] != 0)
			return refuse(
				-E2BIG, why,
				"gmp_config: byte %zu is set, in a field that this library, "
				"version %s, does not have; leave it 0, or use the library of "
				"the header",
				i, gmp_version_string());
	}
	memcpy(out, user, min_of(user->size, sizeof(*out)));
	if (out->flags & ~(unsigned)(GMP_VIRTUAL_TIME | GMP_COOPERATIVE | GMP_OWN_TLS))
		return refuse(-EINVAL, why,
			      "gmp_config.flags: %#x is refused; it takes: GMP_VIRTUAL_TIME, "
			      "GMP_COOPERATIVE, GMP_OWN_TLS",
			      (unsigned)out->flags);
	return 0;
}

/* GMP_TLS=own sets a flag, so it is no setting of the table. */
static int load_tls(gmp_config *c, const char **why)
{
	const char *env = secure_getenv("GMP_TLS");

	if (env == NULL || *env == '\0')
		return 0;
	if (strcmp(env, "own") != 0)
		return refuse(-EINVAL, why, "GMP_TLS: \"%s\" is refused; it takes: own",
			      quote(env, SIZE_MAX));
	c->flags |= GMP_OWN_TLS;
	return 0;
}

static void from_machine(gmp_config *c)
{
	if (c->procs == 0) {
		int cpus = os_cpus_allowed();

		c->procs = min_of(cpus, 1024);
	}
	while (c->seed == 0)
		c->seed = os_random();
	c->stack_size = (size_t)1 << log2_ceil(max_of(c->stack_size, (size_t)STACK_SIZE_MIN));
}

int options_load(const gmp_config *user, struct options *out, const char **why)
{
	const char *ignored;
	const struct option *o = table;
	const char *stack = secure_getenv("GMP_STACK_SIZE");
	gmp_config *c = &out->c;
	uint64_t v;
	int err;

	why = why != NULL ? why : &ignored;
	*why = NULL;
	*out = (struct options){ .debug = 0 };
	err = user != NULL ? copy_config(user, c, why) : 0;
	if (err != 0)
		return err;
	c->size = sizeof(*c);
	bool any_stack = c->stack_size == 0 && (stack == NULL || *stack == '\0');
#define OPTION(field, kind, env, fallback, min, max, help)                                         \
	v = (uint64_t)c->field;                                                                    \
	err = load_one(o++, &v, why);                                                              \
	if (err != 0)                                                                              \
		return err;                                                                        \
	if ((kind) == SLICE && v == SLICE_OFF) {                                                   \
		v = fallback; /* other intervals follow the time slice */                          \
		c->flags |= GMP_COOPERATIVE;                                                       \
	}                                                                                          \
	c->field = (__typeof__(c->field))v;
#include "base/options.def"
#undef OPTION
	err = load_debug(out, why);
	if (err == 0)
		err = load_tls(c, why);
	if (err != 0)
		return err;
	if (any_stack && out->debug & DEBUG_chaos)
		c->stack_size = STACK_SIZE_CHAOS;
	if (c->flags & GMP_VIRTUAL_TIME)
		out->debug |= DEBUG_virtual;
	from_machine(c);
	return 0;
}
