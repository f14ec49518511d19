/* SPDX-License-Identifier: MIT */
/* Reports of a process that ends: names the running green thread in fatal messages; at a deadlock,
 * dumps all green threads and prints the cycles of their waits. */
#include "observe/dump/deadlock_report.h"

#include <unistd.h>

#include "base/os.h"
#include "base/throw.h"
#include "g.h"
#include "observe/dump/cycle.h"
#include "observe/dump/dump.h"
#include "observe/trace/tracing.h"
#include "policy/stall.h"

size_t report_self(char *buf, size_t n)
{
	struct m *m = getm() ? getm() : gmp__blockedm();
	struct line l = { .n = 0 };

	if (!m || !m->curg)
		return 0;
	line_str_sig(&l, " in ");
	line_green_sig(&l, m->curg->id, g_name(m->curg), (uintptr_t)m->curg->fn);
	n = min_of(n, l.n);
	__builtin_memcpy(buf, l.text, n);
	return n;
}

/* --- deadlock --- */

static void print_deadlock(void)
{
	struct line l = { .n = 0 };

	line_str_sig(&l, "gmp: fatal: all green threads are asleep - deadlock!\n");
	line_write_sig(&l, STDERR_FILENO);
	dump_dying();
	cycles_print();
	tracing_complete();
}

int64_t report_stall(void)
{
	/* Count threads first, then re-check the queues: if an external thread made a G runnable
	 * and ended before the count, the re-check finds that G. */
	if (sched_external_threads(true))
		return os_thread_recount_ns();
	if (!sched_stalled_locked())
		return 0;
	print_deadlock();
	_exit(2);
}
