/* SPDX-License-Identifier: MIT */
/*
 * Fault injection: makes the calls of the runtime fail, one use after another.
 *
 * A sweep runs one scenario many times, each time in a child process in which the n-th use of one
 * call fails.  It does so for each call that the scenario uses, and for n = 1, 2, ... until n is
 * past the last use.  In the same child, the scenario then runs once more without a fault.  Three
 * sweeps:
 *
 *   each_call     the n-th use of a call fails, once
 *   from_then_on  from the n-th use of any SCARCE call on, all SCARCE calls fail
 *   interrupted   the n-th use of a call fails with EINTR, once: no caller of gmp may see it
 *
 * Each run checks:
 *
 *  - gmp reports the injected error or succeeds (ASK), and a repeated call succeeds;
 *  - the run ends, and the next run starts;
 *  - no block, mapping, fd, thread or signal handler is left.
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

/* From plan_begin to plan_end, uses are counted in uses[] and fail as planned. */
void plan_begin(enum plan_mode mode, int call, int nth, int uses[NCALLS]);
void plan_end(void);
enum plan_mode plan_now(void);
/* For a stand-in outside the harness: counts a use.  True, with errno, if this use must fail. */
bool plan_due(enum call call);
bool plan_fired(void);
/*
 * Returns true if a fault was injected and r is its error or `also`.  Under PLAN_EACH, returns true
 * at most once.
 */
bool plan_excuses(long r, long also);

/* Resources of the runtime that are not freed yet. */
struct held {
	int blocks, mappings, threads, descriptors;
};

struct held held_now(void);
void held_print(void);

typedef void (*scenario_fn)(int procs);

void sweep(const char *name, scenario_fn fn, enum plan_mode mode, int procs);

/* Returns r; fails the test if r is an error that was not injected and is not `also`. */
long ask_checked(long r, long also, const char *what, const char *file, int line);

/*
 * Evaluates to the result of call.  It may be negative (ASK) or NULL (ASK_PTR) only after a fault.
 * Under PLAN_EACH, a failed call is repeated and must then succeed.  ASK_OR also accepts the error
 * `also`, which gmp.h documents in place of the injected one.
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

/* For calls that must not be repeated, such as gmp_close. */
#define ASK_ONCE(call) ask_checked((long)(call), 0, #call, __FILE__, __LINE__)

/* Calls gmp_run with procs Ps.  Returns a negative error if the run could not start. */
static inline int in_run(int procs, gmp_fn fn, void *arg)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.procs = procs;
	cfg.max_green = 5000;
	return (int)ASK(gmp_run(fn, arg, &cfg));
}

/* Registers one sweep of a scenario for 1 and 2 Ps. */
#define SWEEP_CASES_(name, text, mode)                                                             \
	static void name##mode##_(int procs)                                                       \
	{                                                                                          \
		sweep(#name, name##_body, mode, procs);                                            \
	}                                                                                          \
	CHECK_CASE_(name##mode##_1_, #name "/" text "/1p", name##mode##_, 1)                       \
	CHECK_CASE_(name##mode##_2_, #name "/" text "/2p", name##mode##_, 2)

/*
 * SWEEP(name) { ... }: defines a scenario, which runs on main's stack and has a parameter `procs`.
 */
#define SWEEP(name)                                                                                \
	static void name##_body(int procs);                                                        \
	SWEEP_CASES_(name, "each_call", PLAN_EACH)                                                 \
	SWEEP_CASES_(name, "from_then_on", PLAN_ALL)                                               \
	SWEEP_CASES_(name, "interrupted", PLAN_EINTR)                                              \
	static void name##_body(__attribute__((unused)) int procs)

#endif
