/* SPDX-License-Identifier: MIT */
/* Findings of GMP_DEBUG=check: late releases and closes.  netpoll/owner.c detects them. */
#include "io/late.h"

#include <unistd.h>

#include "base/finding.h"
#include "base/os.h"
#include "enter.h"
#include "g.h"
#include "observe/pause.h"
#include "types.h"

static const struct {
	const char *what, *then, *advice;
} kinds[] = {
	[LATE_RELEASE] = { " releases file descriptor ",
			   ", which another connection has now: -EBADF",
			   "its own was closed by a plain close(): call gmp_fd_release before the "
			   "library closes the fd, or not at all" },
	[LATE_CLOSE] = { " closes file descriptor ", ", which another connection has now: -EBADF",
			 "its own was closed before: close each fd once" },
	[LATE_UNKNOWN] = { " closes file descriptor ", ", whose file gmp has not seen",
			   "the file that gmp knew was closed by a plain close(): if this file "
			   "belongs to another connection, close each fd once; otherwise adopt it "
			   "first" },
};

/* Bytes of stack that finding_write and the lookup of source positions may need. */
enum { REPORT_STACK = 24 << 10 };

static struct findings reported[LATE_UNKNOWN + 1]; /* by kind */

/* True if gp has REPORT_STACK bytes left; otherwise the report has no backtrace. */
static bool late_has_stack(const struct g *gp)
{
	return !gp || (char *)__builtin_frame_address(0) - gp->stack >= REPORT_STACK;
}

/* The first line of the finding, without the place, and the advice. */
static void late_describe(struct line *l, struct line *advice, int fd, enum late_kind kind)
{
	const struct g *gp = own_green();

	l->n = advice->n = 0;
	l->names = advice->names = NULL;
	line_str_sig(l, "gmp: check: ");
	if (gp)
		line_green_sig(l, gp->id, g_name(gp), (uintptr_t)gp->fn);
	else
		line_str_sig(l, "an external thread");
	line_add_sig(l, "%s%u%s", kinds[kind].what, (unsigned)fd, kinds[kind].then);
	line_str_sig(advice, kinds[kind].advice);
}

static noinline void late_write(int fd, enum late_kind kind)
{
	struct line l, advice;
	struct trace t = { 0 };

	trace_walk(&t);
	if (!finding_wanted(&reported[kind], finding_wait(&t, NULL)))
		return;
	late_describe(&l, &advice, fd, kind);
	line_str_sig(&l, ", in ");
	finding_place(&l, t.pc[finding_frame(&t)]);
	finding_write(&l, &advice, &t, false);
}

/* Without a backtrace.  The place is not known, so one finding per kind is written. */
static noinline void late_write_short(int fd, enum late_kind kind)
{
	struct line l, advice;

	if (!finding_wanted(&reported[kind], 0))
		return;
	late_describe(&l, &advice, fd, kind);
	line_str_sig(&l, "\n");
	line_write_sig(&l, STDERR_FILENO);
	line_str_sig(&advice, "\n");
	line_write_sig(&advice, STDERR_FILENO);
}

void late_report(int fd, enum late_kind kind)
{
	if (likely(!(sched.options.debug & DEBUG_check)))
		return;
	if (kind == LATE_UNKNOWN && !os_is_open(fd))
		return;
	struct p *paused = run_pause();

	if (late_has_stack(own_green()))
		late_write(fd, kind);
	else
		late_write_short(fd, kind);
	run_resume(paused);
}
