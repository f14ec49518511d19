/* SPDX-License-Identifier: MIT */
/*
 * Fork: makes the child a process without a runtime.
 *
 * The child has one OS thread, the caller of fork.  It runs on as an external thread, even if it
 * was an M: the green thread that called fork keeps its stack and its thread-local values.  Under
 * gmp-run it becomes a green thread again (FORK-3; posix/program/run_main.c has the protocol).
 *
 * Each kind of state that the child must not have has one hook, which fork_child calls.  A hook
 * runs in the child, in a handler of pthread_atfork, and takes no lock of the runtime: a thread of
 * the parent may have held it.
 *
 *   the calling thread    signal_thread_restore, fls_adopt, owntls_forget
 *   signals               dump_signal_forget, notify_forget, signal_fini
 *   io_uring, poller      uring_forget, gmp__poller.close, netpoll_forget_all
 *   Gs, Ms, Ps, stacks    proc_forget
 *   other descriptors     close_own_fds: what is still entered by os_fd_set_own, as pidfds are
 *   dumps                 dump_forget, os_sinks_forget
 *   traces                tracing_forget
 *   debug servers         debug_servers_forget
 *   CPU profiles          cpusample_forget
 *   helper threads        os_thread_forget_counted
 *   ticks                 ticks_forget
 *   names (lookups)       resolve_forget
 *   cleanups              leftovers_forget
 *
 * Objects that work without a runtime register handlers of their own, in a constructor, since a
 * program that never starts a runtime may fork too:
 *
 *   mutexes and so on     parkinglot.c: empties the parking table
 *   channels              chan.c: counts the fork; chan_forget_parents empties the queues of a
 *                         channel at its next use
 *
 * Invariants
 *  -       In the child: state RUN_NONE, no M, an empty parking table.  The memory of the parent's
 *          runtime stays mapped, including the stack that the caller runs on.
 *  -       The number of the run stays, so a timer of the parent's run is not taken for one of the
 *          child's.
 *  FORK-3  run_adopt (run.c) makes that thread the first green thread of a new runtime.  Its stack
 *          belongs to no stack class, so no other green thread uses it, and its block stays loaded
 *          for it alone.  The OS thread gets a block of its own (TLSBLOCK-7) and a new stack for
 *          g0: those of the parent's M may be reused by libc.
 */
#include "run/fork.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/os.h"
#include "io/cleanup.h"
#include "io/uring.h"
#include "monitor/faultsig.h"
#include "netpoll/netpoll.h"
#include "observe/cpusample.h"
#include "observe/dump/dump.h"
#include "observe/dump/dump_signal.h"
#include "observe/serve/server.h"
#include "observe/trace/tracing.h"
#include "poller.h"
#include "proc.h"
#include "sys/notify.h"
#include "sys/resolve.h"
#include "variant/owntls.h"
#include "wait/fls.h"
#include "wait/ticker.h"

/* The descriptors that no other hook has closed. */
static void close_own_fds(void)
{
	for (int fd = os_fd_next_own(0); fd >= 0; fd = os_fd_next_own(0)) {
		os_fd_set_own(fd, false);
		close(fd);
	}
}

/* The process that registers fork_child, REGISTERED, or 0 (a). */
static int registrar;
enum { REGISTERED = -1 };

static void fork_child(void)
{
	uint32_t run = sched.run;
	int saved = errno; /* fork leaves it in the child */
	struct m *m = getm() ? getm() : gmp__blockedm();

	if (m) {
		os_timer_slack(sched.slack);
		if (sched.preempts)
			os_thread_slice(0, 0);
		signal_thread_restore();
		fls_adopt(m->curg);
	}
	st_rlx(&registrar, (int)REGISTERED);
	gmp__setm(NULL);
	owntls_forget();
	dump_signal_forget();
	notify_forget();
	if (ld_rlx(&sched.state) != RUN_NONE) {
		uring_forget();
		gmp__poller.close();
		signal_fini();
		proc_forget();
		netpoll_forget_all();
	}
	close_own_fds();
	os_thread_forget_counted();
	dump_forget();
	os_sinks_forget();
	tracing_forget();
	debug_servers_forget();
	cpusample_forget();
	ticks_forget();
	resolve_forget();
	leftovers_forget();
	memset(&sched, 0, sizeof(sched));
	sched.run = run;
	errno = saved;
}

int fork_register(void)
{
	int self = getpid(), was = ld_rlx(&registrar);

	while (was != REGISTERED) {
		if (was == self) { /* another thread; not one of the parent of this process */
			os_yield();
			was = ld_rlx(&registrar);
		} else if (cas_rlx(&registrar, &was, self)) {
			int err = -pthread_atfork(NULL, NULL, fork_child);

			st_rlx(&registrar, err ? 0 : (int)REGISTERED);
			return err;
		}
	}
	return 0;
}
