/* SPDX-License-Identifier: MIT */
/*
 * What does the runtime do when a call of the system's fails?
 *
 * A sweep runs one scenario again and again, each time in a process of its own, in which the n-th use of one
 * call fails; for each call that it uses, and n = 1, 2, ... until n is past the last use.  Then the scenario
 * runs once more, without a fault.  Three sweeps:
 *
 *   each_call     the n-th use of a call fails, once
 *   from_then_on  from the n-th use of any SCARCE call on, all of them fail: nothing is left
 *   interrupted   the n-th use of a call says EINTR, once: nobody may notice
 *
 * and each time must hold:
 *
 *  - what the runtime says is the error that was planted, or nothing (ASK), and asked again it does it;
 *  - the run ends, and the next one begins;
 *  - nothing is left: blocks, mappings, descriptors, threads, signal handlers.
 */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

#include <stdbool.h>

#include <gmp.h>

#include "check.h"

enum call {
#define CALL(type, name, params, args, failed, error, flags) F_##name,
#define ERRNO_CALL(type, name, params, args, error, flags) F_##name,
#define BY_HAND(name, error, flags) F_##name,
#define PART(name, error, flags) F_##name,
#include "calls.def"
#undef CALL
#undef ERRNO_CALL
#undef BY_HAND
#undef PART
	NCALLS
};

enum { SCARCE = 1, EINTR_ = 2, DONE = 4, MAKES = 8 };

struct call_info {
	const char *name;
	int error; /* > 0: an errno value; < 0: another code, as it is */
	unsigned flags;
};

extern const struct call_info calls[NCALLS];

enum plan_mode { PLAN_NONE, PLAN_EACH, PLAN_ALL, PLAN_EINTR };

/* From plan_begin to plan_end, uses are counted in uses[], and fail as planned. */
void plan_begin(enum plan_mode mode, int call, int nth, int uses[NCALLS]);
void plan_end(void);
enum plan_mode plan_now(void);
bool plan_fired(void);
/* r < 0 is the answer to a fault that was planted, or is `also` and there was one; under PLAN_EACH only
 * once. */
bool plan_excuses(long r, long also);

/* What is held now of what the runtime has made. */
struct held {
	int blocks, mappings, threads, descriptors;
};

struct held held_now(void);
void held_print(void);

typedef void (*scenario_fn)(int procs);

void sweep(const char *name, scenario_fn fn, enum plan_mode mode, int procs);

/* r, unless it is an error that nobody planted, nor `also`. */
long ask_checked(long r, long also, const char *what, const char *file, int line);

/*
 * The value of call, which is negative (ASK) or NULL (ASK_PTR) after a fault only.  One that was to fail
 * once is asked again, and must not then.  ASK_OR: gmp.h has a word of its own for it, `also`.
 */
#define ASK_OR(call, also)                                                                         \
	({                                                                                         \
		long ask_ = ask_checked((long)(call), also, #call, __FILE__, __LINE__);            \
		if (ask_ < 0 && plan_now() == PLAN_EACH)                                           \
			ask_ = ask_checked((long)(call), also, #call, __FILE__, __LINE__);         \
		ask_;                                                                              \
	})
#define ASK(call) ASK_OR(call, 0)

#define ASK_PTR(call)                                                                              \
	({                                                                                         \
		__typeof__(call) ask_p_ = (call);                                                  \
		if (!ask_p_ && !plan_fired())                                                      \
			check_failed("%s:%d: %s is NULL", __FILE__, __LINE__, #call);              \
		if (!ask_p_ && plan_now() == PLAN_EACH) {                                          \
			ask_p_ = (call);                                                           \
			CHECK(ask_p_ != NULL);                                                     \
		}                                                                                  \
		ask_p_;                                                                            \
	})

/* For what cannot be asked twice: closing. */
#define ASK_ONCE(call) ask_checked((long)(call), 0, #call, __FILE__, __LINE__)

/* gmp_run with that many Ps; negative: it could not begin. */
static inline int in_run(int procs, gmp_fn fn, void *arg)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	cfg.max_green = 5000;
	return (int)ASK(gmp_run(fn, arg, &cfg));
}

/* The order in which to set a scenario's cases down; 1 and 2 Ps. */
#define SWEEP_CASES_(name, text, mode)                                                             \
	static void name##mode##_(int procs)                                                       \
	{                                                                                          \
		sweep(#name, name##_body, mode, procs);                                            \
	}                                                                                          \
	CHECK_CASE_(name##mode##_1_, #name "/" text "/1p", name##mode##_, 1)                       \
	CHECK_CASE_(name##mode##_2_, #name "/" text "/2p", name##mode##_, 2)

/* SWEEP(name) { ... }: the scenario, on main's stack, with `procs` given. */
#define SWEEP(name)                                                                                \
	static void name##_body(int procs);                                                        \
	SWEEP_CASES_(name, "each_call", PLAN_EACH)                                                 \
	SWEEP_CASES_(name, "from_then_on", PLAN_ALL)                                               \
	SWEEP_CASES_(name, "interrupted", PLAN_EINTR)                                              \
	static void name##_body(__attribute__((unused)) int procs)

#endif
