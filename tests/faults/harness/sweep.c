/* SPDX-License-Identifier: MIT */
/* Sweep driver: runs one scenario with a fault at each of its fault points. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "faults.h"

enum {
	PATIENCE = 20, /* timeout of one run, in seconds */
	MOST = 150,    /* uses of one call that are tried: the number of waits has no bound */
};

/* Result of a run in a child process, in shared memory. */
struct outcome {
	int uses[NCALLS];
	bool fired, ended;
	struct held held;
};

static struct outcome *outcome;

long ask_checked(long r, long also, const char *what, const char *file, int line)
{
	if (r < 0 && !plan_excuses(r, also))
		check_failed("%s:%d: %s is %ld", file, line, what, r);
	return r;
}

static bool is_default(int signo)
{
	struct sigaction sa;

	CHECK_EQ(sigaction(signo, NULL, &sa), 0);
	return sa.sa_handler == SIG_DFL;
}

static void run_child(scenario_fn fn, enum plan_mode mode, int call, int nth, int procs)
{
	alarm(PATIENCE);
	plan_begin(mode, call, nth, outcome->uses);
	fn(procs);
	plan_end();
	outcome->fired = plan_fired();
	fn(procs);
	outcome->held = held_now();
	CHECK(is_default(SIGSEGV));
	CHECK(is_default(SIGBUS));
	outcome->ended = true;
	if (getenv("FAULTS_HELD"))
		held_print();
	_exit(0);
}

/* Returns false if the run failed. */
static bool run_point(scenario_fn fn, enum plan_mode mode, int call, int nth, int procs)
{
	int status;
	pid_t pid;

	memset(outcome, 0, sizeof(*outcome));
	fflush(NULL);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		run_child(fn, mode, call, nth, procs);
	while (waitpid(pid, &status, 0) < 0)
		CHECK(errno == EINTR);
	if (WIFSIGNALED(status))
		fprintf(stderr, "  %s\n",
			WTERMSIG(status) == SIGALRM ? "timeout" : strsignal(WTERMSIG(status)));
	return status == 0 && outcome->ended;
}

static bool holds_more(const struct held *now, const struct held *usual)
{
	const struct {
		const char *what;
		int now, usual;
	} of[] = {
		{ "blocks", now->blocks, usual->blocks },
		{ "mappings", now->mappings, usual->mappings },
		{ "threads", now->threads, usual->threads },
		{ "descriptors", now->descriptors, usual->descriptors },
	};
	bool more = false;

	for (int i = 0; i < 4; i++) {
		if (of[i].now <= of[i].usual)
			continue;
		fprintf(stderr, "  holds %d %s, expected %d\n", of[i].now, of[i].what, of[i].usual);
		more = true;
	}
	return more;
}

struct sweep_state {
	const char *name;
	scenario_fn fn;
	enum plan_mode mode;
	int procs;
	struct held usual;
	int points, failures;
};

/* Returns false if n is past the last use. */
static bool try_point(struct sweep_state *s, int call, int n)
{
	static const char *const modes[] = { "", "fails once", "and all later uses fail",
					     "is interrupted" };
	bool well = run_point(s->fn, s->mode, call, n, s->procs);

	if (well && !outcome->fired)
		return false;
	s->points++;
	if (!well || holds_more(&outcome->held, &s->usual)) {
		s->failures++;
		fprintf(stderr, "%s: use %d of %s %s\n", s->name, n,
			call < 0 ? "the scarce calls" : calls[call].name, modes[s->mode]);
	}
	return true;
}

static bool can_fail(enum plan_mode mode, int call)
{
	return mode == PLAN_EINTR ? calls[call].flags & EINTR_ : calls[call].error != 0;
}

void sweep(const char *name, scenario_fn fn, enum plan_mode mode, int procs)
{
	struct sweep_state s = { .name = name, .fn = fn, .mode = mode, .procs = procs };
	static int uses[NCALLS];
	const char *only = getenv("FAULTS_CALL"), *nth = getenv("FAULTS_NTH");

	outcome = mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	CHECK(outcome != MAP_FAILED);
	CHECK(run_point(fn, PLAN_NONE, 0, 0, procs));
	s.usual = outcome->held;
	memcpy(uses, outcome->uses, sizeof(uses));
	for (int c = 0; c < NCALLS && mode != PLAN_ALL; c++) {
		if (!uses[c] || !can_fail(mode, c) || (only && strcmp(only, calls[c].name) != 0))
			continue;
		for (int n = nth ? atoi(nth) : 1; n <= MOST && try_point(&s, c, n) && !nth; n++)
			;
	}
	for (int n = nth ? atoi(nth) : 1; mode == PLAN_ALL && try_point(&s, -1, n) && !nth; n++)
		CHECK(n < 5000);
	fprintf(stderr, "%s: %d faults, %d failures\n", name, s.points, s.failures);
	CHECK_EQ(s.failures, 0);
	CHECK(s.points > 0 || mode == PLAN_EINTR);
}
