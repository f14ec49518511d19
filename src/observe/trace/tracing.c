/* SPDX-License-Identifier: MIT */
/* Starts and stops traces; emits the events of Gs that leave their stacks; see
 * observe/trace/tracing.h. */
#include "observe/trace/tracing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "base/throw.h"
#include "enter.h"
#include "g.h"
#include "observe/dump/snapshot.h"
#include "observe/trace/tracefile.h"
#include "observe/tracing.h"
#include "policy/stall.h"
#include "spawn.h"
#include "variant/leave.h"
#include "variant/variant.h"

static struct {
	struct lock lock; /* LR_DUMP: the fields below */
	enum { TRACE_OFF, TRACE_STARTS, TRACE_ON, TRACE_ENDS } state;
	enum trace_owner owner;
	bool always;         /* GMP_DEBUG=cputime */
	int64_t lease_until; /* the end of a cputime_lease, on the clock of gmp_now; 0: none */
} rec;

/* --- Gs that leave their stacks, on g0 --- */

static uint64_t id_of(const struct g *gp)
{
	return gp ? ld_rlx(&gp->id) : 0;
}

leaves_by_jump static int park_traced_g0(void *arg)
{
	struct m *m = arg;
	struct g *gp = m->curg;

	trace_leave(m, gp, EVENT_PARK, ld_rlx(&gp->reason), snapshot_object(gp),
		    id_of(snapshot_awaited(gp)));
	return ld_rlx(&sched.untraced.park)(m);
}

leaves_by_jump static int yield_traced_g0(void *arg)
{
	struct m *m = arg;

	trace_leave(m, m->curg, EVENT_YIELD, 0, 0, 0);
	return ld_rlx(&sched.untraced.yield)(m);
}

leaves_by_jump static int exit_traced_g0(void *arg)
{
	struct m *m = arg;

	trace_leave(m, m->curg, EVENT_EXIT, 0, 0, 0);
	return ld_rlx(&sched.untraced.exit)(m);
}

static void record_cputime(bool on)
{
	static const struct leave_steps traced = { .park = park_traced_g0,
						   .yield = yield_traced_g0,
						   .exit = exit_traced_g0 };

	emit_account(on);
	leave_trace(on ? &traced : NULL); /* RECORD-2: after gmp__recording has changed */
}

/* --- what is recorded; under rec.lock --- */

static bool wants_cputime(void)
{
	return rec.always || rec.state == TRACE_STARTS || rec.state == TRACE_ON || rec.lease_until;
}

/* Begin to account CPU time, unless that is on.  Returns 0 or -ENOMEM. */
static int account_locked(void)
{
	int err = recording() & RECORD_CPU ? 0 : cputime_begin();

	if (!err) {
		if (!(recording() & RECORD_CPU))
			cputime_on();
		record_cputime(true);
	}
	return err;
}

static void unaccount_locked(void)
{
	if (!wants_cputime())
		record_cputime(false);
}

/* --- traces --- */

/* Become the only trace.  Returns 0, -EBUSY and so on. */
static int claim(enum trace_owner owner)
{
	int err = -EBUSY;

	if (!variant_gs_switch())
		return -ENOTSUP;
	lock(&rec.lock, LR_DUMP);
	if (rec.state == TRACE_OFF && !(err = account_locked())) {
		rec.state = TRACE_STARTS;
		rec.owner = owner;
	}
	unlock(&rec.lock, LR_DUMP);
	return err;
}

/* After claim.  fd: of the file, or -errno. */
static int start_claimed(int fd)
{
	int err = fd < 0 ? fd : tracefile_start(fd, rec.owner == TRACE_OF_SERVER);

	if (err && fd >= 0)
		os_close_file(fd);
	lock(&rec.lock, LR_DUMP);
	rec.state = err ? TRACE_OFF : TRACE_ON;
	unaccount_locked();
	unlock(&rec.lock, LR_DUMP);
	return err;
}

int tracing_start_pipe(int fd)
{
	int err = claim(TRACE_OF_SERVER);

	if (!err)
		return start_claimed(fd);
	close(fd);
	return err;
}

/* The file is opened after claim: a refused call leaves the file of the trace that is on as it
 * is.  In blocking code, where shutdown kills no G. */
static int start_file(const char *path, enum trace_owner owner)
{
	int err = claim(owner);

	if (err)
		return err;
	gmp_block_enter();
	err = start_claimed(os_create_file(path));
	gmp_block_leave();
	return err;
}

int gmp_trace_start(const char *path)
{
	if (!path || !path[0])
		return -EINVAL;
	if (!rt_enter())
		return -ESRCH;
	int err = start_file(path, TRACE_OF_PROGRAM);

	rt_leave();
	return err;
}

/* Returns 0, the error of a write, or -EINVAL without a trace of that owner. */
static int stop(enum trace_owner owner)
{
	lock(&rec.lock, LR_DUMP);
	bool on = rec.state == TRACE_ON && rec.owner == owner;

	if (on)
		rec.state = TRACE_ENDS; /* no other call ends it */
	unlock(&rec.lock, LR_DUMP);
	if (!on)
		return -EINVAL;
	int err = tracefile_stop();

	lock(&rec.lock, LR_DUMP);
	rec.state = TRACE_OFF;
	unaccount_locked();
	unlock(&rec.lock, LR_DUMP);
	return err;
}

int gmp_trace_stop(void)
{
	if (!rt_enter())
		return -ESRCH;
	gmp_block_enter(); /* until the last write */
	int err = stop(TRACE_OF_PROGRAM);

	gmp_block_leave();
	rt_leave();
	return err;
}

int tracing_stop_pipe(void)
{
	gmp_block_enter();
	int err = stop(TRACE_OF_SERVER);

	gmp_block_leave();
	return err;
}

/* --- of the program --- */

static void emit_user(enum event type, const char *text, size_t n)
{
	if (!rt_enter())
		return;
	uint32_t what = recording();

	if (what) {
		uint64_t id = id_of(own_green());

		if (type == EVENT_END)
			gmp__emit(what, type, 0, id, 0, 0);
		else
			gmp__emit_text(what, type, id, text, n);
	}
	rt_leave();
}

void gmp_trace_begin(const char *name)
{
	if (unlikely(recording()))
		emit_user(EVENT_BEGIN, name ? name : "", name ? strlen(name) : 0);
}

void gmp_trace_end(void)
{
	if (unlikely(recording()))
		emit_user(EVENT_END, NULL, 0);
}

void gmp_trace_log(const char *category, const char *message)
{
	char text[EVENT_TEXT_MOST];
	int n;

	if (likely(!recording()))
		return;
	n = snprintf(text, sizeof(text), "%s%c%s", category ? category : "", '\0',
		     message ? message : "");
	emit_user(EVENT_LOG, text, min_of((size_t)max_of(n, 0), sizeof(text) - 1));
}

/* --- CPU time --- */

/* RECORD-4.  There is one green thread of a lease at a time. */
static int lease_sleep(int64_t until)
{
	sched_ignore_timers(1);
	int err = gmp_sleep_until(until);

	sched_ignore_timers(0);
	return err;
}

/* A green thread that ends the lease.  lease_until grows while it sleeps. */
static void lease_main(void *arg)
{
	int64_t until;
	bool over;

	(void)arg;
	do {
		lock(&rec.lock, LR_DUMP);
		until = rec.lease_until;
		over = until <= gmp_now();
		if (over)
			rec.lease_until = 0;
		unaccount_locked();
		unlock(&rec.lock, LR_DUMP);
	} while (!over && lease_sleep(until) == 0);
}

bool cputime_lease(int64_t ns)
{
	lock(&rec.lock, LR_DUMP);
	int err = variant_gs_switch() ? account_locked() : -ENOTSUP;
	bool fresh = !err && !rec.lease_until;

	if (!err)
		rec.lease_until = max_of(rec.lease_until, gmp_now() + ns);
	unlock(&rec.lock, LR_DUMP);
	if (fresh)
		err = green_start(lease_main, NULL, "gmp cputime lease", 0);
	if (err && fresh) {
		lock(&rec.lock, LR_DUMP);
		rec.lease_until = 0;
		unaccount_locked();
		unlock(&rec.lock, LR_DUMP);
	}
	return !err;
}

/* --- begin and end of a run --- */

/* Copy the path of GMP_TRACE to `to`, with the number of the process for each %p.  Returns 1 if it
 * has a %p, 0, or -ENAMETOOLONG. */
static int trace_path(char *to, size_t room, const char *from)
{
	int has_pid = 0;
	size_t n = 0;

	for (; *from && n < room; from++) {
		if (from[0] == '%' && from[1] == 'p') {
			n += (size_t)snprintf(to + n, room - n, "%d", (int)getpid());
			has_pid = 1;
			from++;
		} else {
			to[n++] = *from;
		}
	}
	if (n >= room)
		return -ENAMETOOLONG;
	to[n] = '\0';
	return has_pid;
}

/* RECORD-3 */
static bool is_file_of_this_process(bool has_pid)
{
	static pid_t first;

	if (!first)
		first = getpid();
	return has_pid || first == getpid();
}

/* The trace of GMP_TRACE.  Returns 0 also without one, or -errno. */
static int start_env(const char *from)
{
	static char path[4096];
	int err = trace_path(path, sizeof(path), from);

	if (err < 0)
		return err;
	if (!is_file_of_this_process(err > 0))
		return 0;
	err = start_file(path, TRACE_OF_RUN);
	if (err != -EBUSY)
		return err;
	dprintf(STDERR_FILENO,
		"gmp: GMP_TRACE: \"%.100s\": another process records a trace into this file, so "
		"this run has no trace: %%p in the path is the number of the process\n",
		path);
	return 0;
}

int tracing_begin(const char **why)
{
	static char text[256];
	const char *path = secure_getenv("GMP_TRACE");
	int err = 0;

	rec.always = sched.options.debug & DEBUG_cputime;
	rec.state = TRACE_OFF;
	rec.lease_until = 0;
	sched_ignore_timers(0);
	if (rec.always && variant_gs_switch())
		err = account_locked();
	if (err || !path || !path[0])
		return err;
	err = start_env(path);
	if (err) {
		snprintf(text, sizeof(text), "GMP_TRACE: \"%.100s\": %s", path,
			 err == -ENOTSUP ? "no traces with GMP_SCHED_THREAD: the kernel schedules"
					 : strerror(-err));
		*why = text;
	}
	return err;
}

void tracing_complete(void)
{
	if (stop(TRACE_OF_RUN) == -EINVAL)
		stop(TRACE_OF_PROGRAM);
}

void tracing_end(void)
{
	if (rec.state != TRACE_OFF) {
		int err = stop(rec.owner);

		if (err && rec.owner != TRACE_OF_SERVER)
			dprintf(STDERR_FILENO, "gmp: the trace is incomplete: %s\n",
				strerror(-err));
	}
	rec.always = false;
	rec.lease_until = 0;
	emit_account(false);
	emit_fini();
	cputime_fini();
}

void tracing_forget(void)
{
	emit_forget();
	tracefile_forget();
	cputime_forget();
	memset(&rec, 0, sizeof(rec));
}
