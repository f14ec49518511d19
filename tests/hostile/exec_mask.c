/* SPDX-License-Identifier: MIT */
/*
 * Starts a child from a green thread; the child prints its masks of blocked and ignored signals.
 *
 *	exec_mask HOW	HOW: system popen spawn fork exec blocking-exec vfork
 *
 * The program blocks only SIGUSR2. The child must start with the signal mask from before gmp_run.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmp.h>

static char *const argv[] = { (char *)"grep", (char *)"-E", (char *)"SigBlk|SigIgn",
			      (char *)"/proc/self/status", NULL };
static const char command[] = "exec grep -E 'SigBlk|SigIgn' /proc/self/status";
static const char *how;
extern char **environ;

static int waited(pid_t pid)
{
	int status = 1;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 1;
	return status;
}

static void make(void *arg)
{
	int *bad = arg;
	char line[256];
	pid_t pid = -1;

	if (!strcmp(how, "system")) {
		*bad = system(command);
	} else if (!strcmp(how, "popen")) {
		FILE *f = popen(command, "r");

		while (f && fgets(line, sizeof(line), f))
			fputs(line, stdout);
		*bad = !f || pclose(f);
		fflush(stdout);
	} else if (!strcmp(how, "spawn")) {
		*bad = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ) || waited(pid);
	} else if (!strcmp(how, "fork")) {
		pid = fork();
		if (pid == 0) {
			execvp(argv[0], argv);
			_exit(1);
		}
		*bad = waited(pid);
	} else if (!strcmp(how, "vfork")) {
		pid = vfork();
		if (pid == 0) {
			execvp(argv[0], argv);
			_exit(1);
		}
		*bad = waited(pid);
	} else if (!strcmp(how, "blocking-exec")) {
		gmp_blocking(execvp(argv[0], argv));
	} else {
		execvp(argv[0], argv);
	}
}

static void app(void *arg)
{
	gmp_g *g;

	/* one on another M, as a rule */
	for (int i = 0; i < 20; i++)
		gmp_yield();
	if (gmp_spawn(&g, make, arg, NULL) == 0)
		gmp_join(g);
}

int main(int argc, char **args)
{
	sigset_t set;
	int bad = 1;

	how = argc > 1 ? args[1] : "exec";
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_SETMASK, &set, NULL);
	signal(SIGPIPE, SIG_DFL);
	if (gmp_run(app, &bad, NULL) != 0)
		return 2;
	return bad != 0;
}
