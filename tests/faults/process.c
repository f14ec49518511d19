/* SPDX-License-Identifier: MIT */
/* A failed process spawn reports its error, starts no child and leaks nothing. */
#define _GNU_SOURCE 1
#include "faults.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

static void talk_to(gmp_process *p)
{
	char buf[8];
	int status = 0;

	if (ASK(gmp_write_all(p->in, "1234", 4)) == 4 && ASK_ONCE(gmp_close(p->in)) == 0 &&
	    ASK(gmp_read_full(p->out, buf, sizeof(buf))) == 4)
		CHECK(memcmp(buf, "1234", 4) == 0);
	else
		gmp_close(p->in);
	p->in = -1;
	gmp_process_close(p);
	CHECK_EQ(ASK(gmp_waitpid(p->pid, &status, 0)), p->pid);
}

static void check_no_child(void)
{
	siginfo_t info;

	CHECK_EQ(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT), -1); /* no planted error */
	CHECK_EQ(errno, ECHILD);
}

static void spawn_cat(void *arg)
{
	const char *argv[] = { "/bin/cat", NULL };
	gmp_process_opts o = GMP_PROCESS_OPTS_INIT;
	gmp_process p;

	(void)arg;
	o.argv = argv;
	o.cwd = "/";
	o.in.kind = o.out.kind = GMP_PROCESS_PIPE;
	o.err.kind = GMP_PROCESS_NULL;
	if (ASK(gmp_process_spawn(&p, &o)) == 0)
		talk_to(&p);
	check_no_child();
}

SWEEP(process_spawn_reports_error_or_starts_child)
{
	in_run(procs, spawn_cat, NULL);
}

/* The caller's descriptors 0 to 2 must be duplicated first. */
static void spawn_with_borrowed(void *arg)
{
	const char *argv[] = { "/bin/true", NULL };
	gmp_process_opts o = GMP_PROCESS_OPTS_INIT;
	gmp_process p;

	(void)arg;
	o.argv = argv;
	o.out.kind = GMP_PROCESS_FD;
	o.out.fd = 2;
	o.err.kind = GMP_PROCESS_STDOUT;
	if (ASK(gmp_process_spawn(&p, &o)) == 0) {
		gmp_process_close(&p);
		CHECK_EQ(ASK(gmp_waitpid(p.pid, NULL, 0)), p.pid);
	}
	check_no_child();
}

SWEEP(process_spawn_with_dup_fds_reports_error_or_starts_child)
{
	in_run(procs, spawn_with_borrowed, NULL);
}
