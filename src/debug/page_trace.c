/* SPDX-License-Identifier: MIT */
/*
 * GET /debug/trace: records a trace for some seconds, and sends it while it is recorded.
 *
 * The collector (debug/tracefile.h) writes to a pipe, whose other end the G of the client reads.  A
 * second G ends the trace, since its end waits for the collector, which waits for the reader.
 *
 * If the client is slow, so is the reader; the collector then waits for the pipe, and events are
 * lost and counted.  If the client is gone, the trace ends at once.  If the run ends, the leftover
 * closes the read end, so the collector gets EPIPE (debug/tracing.c:tracing_end waits for it).
 */
#include <unistd.h>

#include "base/os.h"
#include "debug/server.h"
#include "debug/tracing.h"
#include "gmp.h"
#include "io/cleanup.h"

struct recording {
	struct leftover leftover;
	int from; /* the read end of the pipe */
	int64_t until;
	gmp_sem over; /* the client is gone */
	int err;      /* of the end of the trace */
};

static void close_from(struct leftover *l)
{
	close(container_of(l, struct recording, leftover)->from);
}

static void end_trace(void *arg)
{
	struct recording *rec = arg;

	gmp_sem_acquire_until(&rec->over, rec->until);
	rec->err = gmp_trace_stop();
}

/* Send what the collector writes, until it has closed its end. */
static void copy_to_client(struct debug_request *r, struct recording *rec)
{
	char buf[DEBUG_ROOM];
	bool gone = false;
	ssize_t n;

	while ((n = gmp_read(rec->from, buf, sizeof(buf))) > 0) {
		if (debug_write(r, buf, (size_t)n) && !gone) {
			gone = true;
			gmp_sem_release(&rec->over, 1);
		}
	}
}

/* Returns 0, or -errno: then nothing is open. */
static int begin_trace(struct recording *rec)
{
	int pipe[2];
	int err = os_pipe(pipe);

	if (err)
		return err;
	rec->from = pipe[0];
	err = gmp_fd_adopt(rec->from);
	if (err >= 0)
		err = tracing_start_fd(pipe[1]);
	if (err < 0) {
		gmp_fd_release(pipe[0]);
		close(pipe[0]);
		close(pipe[1]);
	}
	return err < 0 ? err : 0;
}

int debug_page_trace(struct debug_request *r)
{
	struct recording rec = { .until = gmp_now() + r->head.seconds * GMP_S };
	gmp_g *ender;
	int err = begin_trace(&rec);

	if (err)
		return err;
	leftover_add(&rec.leftover, close_from);
	err = gmp_spawn(&ender, end_trace, &rec, NULL);
	if (err) {
		/* the pipe has room for the little that was recorded */
		gmp_trace_stop();
	} else {
		debug_begin(r, "application/octet-stream");
		copy_to_client(r, &rec);
		gmp_join(ender);
		err = rec.err;
	}
	leftover_del(&rec.leftover);
	gmp_close(rec.from);
	return err;
}
