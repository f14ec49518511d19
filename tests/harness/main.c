/* SPDX-License-Identifier: MIT */
/*
 * Runs the cases of one test program.
 *
 *   prog --list   prints their names
 *   prog NAME     runs one case in this process; ctest does this and keeps the time
 *   prog          runs each case in a child with a limit of $CHECK_TIMEOUT seconds (60); if
 *                 $CHECK_PROCS is set, cases with another number of Ps are left out
 *
 * Each case begins with a line that names the seed of its runs, $GMP_SEED, which is drawn if it is
 * unset. ctest prints the line with a failure; the same seed repeats the random draws.
 *
 * The exit status is 0, 1 for a failure, 77 for a single case that was skipped.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "check.h"

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

enum { SKIPPED = 77 };

static struct check_case *cases, **last = &cases, *current;

/*
 * cmocka catches these signals and leaves the handler by longjmp, which is wrong on the stack of a
 * G.
 */
static const int caught[] = { SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS };
#define NCAUGHT (sizeof(caught) / sizeof(caught[0]))
static struct sigaction before[NCAUGHT];

void check_register(struct check_case *c)
{
	*last = c;
	last = &c->next;
}

void check_skip(const char *why)
{
	dprintf(2, "skipped: %s\n", why);
	_exit(SKIPPED);
}

int check_on_valgrind(void)
{
	return (int)RUNNING_ON_VALGRIND;
}

void check_skip_on_valgrind(const char *why)
{
	if (check_on_valgrind())
		check_skip(why);
}

long check_scaled(long n)
{
	const char *percent = getenv("CHECK_SCALE");
	long scaled = percent ? n * atol(percent) / 100 : n;

	return scaled > 0 ? scaled : 1;
}

static void body(void **state)
{
	(void)state;
	for (size_t i = 0; i < NCAUGHT; i++)
		sigaction(caught[i], &before[i], NULL);
	current->fn(current->procs);
}

static void show_seed(void)
{
	struct timespec t;
	char text[24];

	clock_gettime(CLOCK_REALTIME, &t);
	snprintf(text, sizeof(text), "%llu",
		 (unsigned long long)t.tv_sec * 1000003 + (unsigned long long)t.tv_nsec + 1);
	setenv("GMP_SEED", text, 0);
	dprintf(2, "GMP_SEED=%s\n", getenv("GMP_SEED"));
}

static int run_one(struct check_case *c)
{
	const struct CMUnitTest tests[] = { { c->name, body, NULL, NULL, NULL } };

	show_seed();
	current = c;
	for (size_t i = 0; i < NCAUGHT; i++)
		sigaction(caught[i], NULL, &before[i]);
	return cmocka_run_group_tests_name(c->name, tests, NULL, NULL) != 0;
}

static int run_child(struct check_case *c, unsigned limit)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		alarm(limit);
		exit(run_one(c));
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	if (WIFSIGNALED(status))
		fprintf(stderr, "%s: %s\n", c->name, strsignal(WTERMSIG(status)));
	else if (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != SKIPPED)
		fprintf(stderr, "%s: status %d\n", c->name, WEXITSTATUS(status));
	return WIFSIGNALED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != SKIPPED);
}

static bool is_wanted(const struct check_case *c)
{
	const char *procs = getenv("CHECK_PROCS");

	return !procs || !c->procs || c->procs == atoi(procs);
}

int main(int argc, char **argv)
{
	const char *limit = getenv("CHECK_TIMEOUT");
	int failed = 0;

	if (argc > 1 && strcmp(argv[1], "--list") == 0) {
		for (struct check_case *c = cases; c; c = c->next)
			puts(c->name);
		return 0;
	}
	for (struct check_case *c = cases; c; c = c->next) {
		if (argc == 1 && is_wanted(c))
			failed |= run_child(c, limit ? (unsigned)atoi(limit) : 60);
		else if (argc > 1 && strcmp(argv[1], c->name) == 0)
			return run_one(c);
	}
	if (argc > 1) {
		fprintf(stderr, "%s: no case named %s\n", argv[0], argv[1]);
		return 2;
	}
	return failed;
}
