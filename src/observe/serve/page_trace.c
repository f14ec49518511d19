/* SPDX-License-Identifier: MIT */
/*
 * GET /debug/trace: records a trace for some seconds, and sends it while it is recorded.
 *
 *   G of the client                                collector (observe/trace/tracefile.h)
 *    1 make a pipe, start the trace                 1 write blocks to the pipe; if it has no room,
 *    2 read the pipe and send, until the seconds      wait, and lose the oldest events
 *      are over or the client is gone
 *    3 ask the collector to stop                    2 write the rest, close the pipe
 *    4 read and send to the end of file
 *    5 join the collector
 *
 * The G never waits for the collector while that waits for the pipe.  If shutdown kills the G, the
 * leftover closes the read end, and the collector gives up (TRACEFILE-3).
 */
#include <unistd.h>

#include "base/os.h"
#include "gmp.h"
#include "io/cleanup.h"
#include "observe/serve/server.h"
#include "observe/trace/tracefile.h"
#include "observe/trace/tracing.h"

/* Steps 2 to 4. */
static void send_trace(struct debug_request *r, int from)
{
	int64_t until = gmp_now() + r->head.seconds * GMP_S;
	char buf[DEBUG_ROOM / 2]; /* of a frame of 4 KiB at most */
	bool asked = false;
	ssize_t n;

	gmp_fd_set_deadline(from, GMP_READ, until);
	while ((n = gmp_read(from, buf, sizeof(buf))) != 0) {
		bool gone = n > 0 && debug_write(r, buf, (size_t)n) != 0;

		if (!asked && (n < 0 || gone || gmp_now() >= until)) {
			asked = true;
			gmp_fd_set_deadline(from, GMP_READ, GMP_FOREVER);
			tracefile_ask_stop();
		} else if (n < 0) {
			break;
		}
	}
}

/* Step 1.  Returns 0, or -errno: then nothing is open. */
static int begin_trace(int *from)
{
	int fds[2];
	int err = os_pipe(fds);

	if (err)
		return err;
	err = gmp_fd_adopt(fds[0]);
	if (err < 0) {
		close(fds[0]);
		close(fds[1]);
		return err;
	}
	*from = fds[0];
	err = tracing_start_pipe(fds[1]);
	if (err)
		gmp_close(fds[0]);
	return err;
}

int debug_page_trace(struct debug_request *r)
{
	struct leftover l;
	int from; /* the read end of the pipe */
	int err = begin_trace(&from);

	if (err)
		return err;
	leftover_add(&l, leftover_close, &from);
	debug_begin(r, "application/octet-stream");
	send_trace(r, from);
	leftover_del(&l);
	gmp_close(from);
	return tracing_stop_pipe();
}
