/* SPDX-License-Identifier: MIT */
/*
 * Rights of a whole program (gmp-run): a call that changes those of the calling thread changes
 * those of all OS threads.
 *
 * The kernel keeps capabilities, securebits, no_new_privs and Landlock domains for each OS thread.
 * A green thread runs on several, so a change of one would last until its next wait.  libc makes
 * setuid on all OS threads, and ends the process if it succeeds on some and fails on others.  As
 * libc does for setuid, a signal makes each OS thread repeat the call.
 *
 *   the caller                                   another OS thread T, in the handler of the signal
 *    1 lock; open /proc/self/task; make the
 *      call: an error ends it
 *    2 for each T of /proc/self/task:
 *        answered = 0; send the signal            a has T not made this call?  make it, count it
 *        wait until answered is 1, or T is gone   b answered = 1; wake the caller
 *    3 until two passes have found no T that had
 *      not made the call: 2 again
 *
 * Invariants
 *   -         When the call returns, each OS thread of the process has made it, or has the rights
 *             of a creator that had made it.  If the creator of a thread that comes during a pass
 *             had not, the next pass finds that thread.  Landlock restricts some of them twice.
 *             Two passes: a listing ends early if a thread ends meanwhile.
 *   -         The signal is libc's own for setuid, which no thread blocks for long.  libc's handler
 *             does not see it (tlsblock.h).
 *   RIGHTS-3  Kernel threads in the process (io_uring) answer no signal and are left out.  They act
 *             with the rights of the caller of each request.  If T cannot be asked (no fd for its
 *             state, RLIMIT_SIGPENDING), the call returns that error after the last pass; it can
 *             be repeated.
 *   RIGHTS-5  Where /proc is missing, as after a chroot, T is the first OS thread, each M, and each
 *             thread of the runtime that makes Ms: no other one runs code of the program or makes
 *             a thread that does, except threads of the program itself.  A thread that begins may
 *             have a creator that had not made the call, and no id yet: a pass first waits for it.
 *   -         No handler of the program runs on the caller between 1 and 3, so a call in a handler
 *             does not wait for the thread that it has interrupted.
 *
 * An OS thread of the program, and the child of a fork before it has a runtime, make the native
 * call.
 */
#include "posix/program/rights.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/os.h"
#include "posix/call/hook.h"
#include "posix/call/user.h"
#include "posix/signal/sigtable.h"
#include "posix/thread/alive.h"

/* ANSWER_NS, BEGIN_NS: how often the caller checks whether T is gone, or a thread has begun.  Not
 * measured. */
enum { BEGIN_NS = 20 * US, ANSWER_NS = MS, LISTING = 32 * 1024, QUIET_PASSES = 2 };

static struct {
	pthread_spinlock_t spin;
	uint32_t id; /* of the present call; under spin */
	long number;
	unsigned long a[RIGHTS_ARGS];
	uint32_t answered; /* (a) */
	unsigned made;     /* threads that have made the call; written before `answered` */
	int error;         /* of the last thread that failed, or could not be asked; 0: none */
	union {
		char listing[LISTING];
		int tids[LISTING / sizeof(int)]; /* RIGHTS-5 */
	};
} change;

static long make_call(void)
{
	return LIBC(syscall)(change.number, change.a[0], change.a[1], change.a[2], change.a[3],
			     change.a[4]);
}

/* --- T --- */

/* Steps a and b, in the handler, with the thread-locals of the OS thread. */
static void repeat_sig(void)
{
	struct signal_state *s = gmp__signal_state();
	int saved = errno;

	if (s->changed != change.id) {
		s->changed = change.id;
		change.made++;
		if (make_call() < 0)
			change.error = errno;
	}
	st_seq(&change.answered, 1u); /* ORD(lock): the caller reads made and error after it */
	os_futex_wake(&change.answered, 1);
	errno = saved;
}

/* --- the caller --- */

/* Reads the state and the flags of /proc/self/task/TID/stat.  Returns 1, or 0 for a thread that is
 * gone or does not answer (RIGHTS-3), or -1 with errno. */
static int answers_by_state(int tid)
{
	enum { FLAG_USER_WORKER = 0x4000, FLAG_IO_WORKER = 0x10 };
	char path[64], line[512];
	unsigned flags = 0;
	char state = 'X';

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT || errno == ESRCH ? 0 : -1;
	ssize_t n = LIBC(read)(fd, line, sizeof(line) - 1);

	LIBC(close)(fd);
	line[n > 0 ? n : 0] = '\0';
	const char *end = strrchr(line, ')');

	if (!end || sscanf(end + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2)
		return 0;
	return state != 'Z' && state != 'X' && !(flags & (FLAG_USER_WORKER | FLAG_IO_WORKER));
}

static int answers(int dir, int tid)
{
	return dir < 0 ? os_thread_exists(tid) : answers_by_state(tid);
}

/* Step 2 for one T, which is not the caller.  Returns 0, also if T is gone, or -1 with errno. */
static int ask(int dir, int tid)
{
	int can = answers(dir, tid);

	if (can <= 0)
		return can;
	st_rlx(&change.answered, 0u);
	if (tlsblock_note_send(tid))
		return errno == ESRCH ? 0 : -1;
	while (!ld_acq(&change.answered)) { /* ORD(lock) */
		os_futex_wait(&change.answered, 0, os_now() + ANSWER_NS);
		if (!ld_acq(&change.answered) && answers(dir, tid) == 0) /* ORD(lock) */
			break;
	}
	return 0;
}

static void ask_other(int dir, int tid)
{
	if (tid > 0 && tid != os_thread_id() && ask(dir, tid))
		change.error = errno;
}

/* RIGHTS-5 */
static void ask_known(void)
{
	while (os_threads_begin())
		os_nap(BEGIN_NS);
	int n = run_tids(change.tids, (int)countof(change.tids) - 1);

	change.tids[n++] = getpid();
	for (int i = 0; i < n; i++)
		ask_other(-1, change.tids[i]);
}

/* Asks the threads that /proc/self/task lists.  Returns 0, or -1 with errno: it cannot be read. */
static int ask_listed(int dir)
{
	struct dirent64 *e;
	long n;

	if (lseek(dir, 0, SEEK_SET) < 0)
		return -1;
	while ((n = LIBC(syscall)(SYS_getdents64, dir, change.listing, sizeof(change.listing))) > 0)
		for (long at = 0; at < n; at += e->d_reclen) {
			e = (struct dirent64 *)(void *)(change.listing + at);
			ask_other(dir, atoi(e->d_name));
		}
	return n < 0 ? -1 : 0;
}

/* dir < 0: there is no /proc.  Returns how many threads had not made the call, or -1 with errno. */
static int pass(int dir)
{
	unsigned before = change.made;

	if (dir < 0)
		ask_known();
	else if (ask_listed(dir))
		return -1;
	return (int)(change.made - before);
}

/* Step 3.  Returns 0 or an errno value. */
static int repeat_on_others(int dir)
{
	int found, quiet = 0;

	while (quiet < QUIET_PASSES) {
		found = pass(dir);
		if (found < 0)
			return errno;
		quiet = found ? 0 : quiet + 1;
	}
	return change.error;
}

/* Steps 1 to 3. */
static long change_all(long number, const unsigned long *a)
{
	int saved = errno, err;
	uint64_t before = signals_lock(&change.spin);
	int dir = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	change.number = number;
	memcpy(change.a, a, sizeof(change.a));
	change.id++;
	change.error = 0;
	long result = dir < 0 && errno != ENOENT ? -1 : make_call();

	err = result < 0 ? errno : repeat_on_others(dir);
	if (dir >= 0)
		LIBC(close)(dir);
	signals_unlock(&change.spin, before);
	errno = err ? err : saved;
	return err ? -1 : result;
}

bool rights_are_of_program(void)
{
	return program_is_whole() && (getm() || gmp__blockedm());
}

static bool changes_rights(int option, unsigned long arg)
{
	switch (option) {
	case PR_SET_KEEPCAPS:
	case PR_SET_SECUREBITS:
	case PR_SET_NO_NEW_PRIVS:
	case PR_SET_SPECULATION_CTRL:
	case PR_CAPBSET_DROP: return true;
	case PR_CAP_AMBIENT: return arg != PR_CAP_AMBIENT_IS_SET;
	default: return false;
	}
}

/* The id of main is that of the process, whichever OS thread runs it. */
static long set_capabilities(const unsigned long *a)
{
	const struct __user_cap_header_struct *h = (const void *)a[0];
	unsigned long b[RIGHTS_ARGS] = { a[0], a[1] };
	struct __user_cap_header_struct own;

	if (!user_reads((const void *)a[0], sizeof(*h)))
		return LIBC(syscall)(SYS_capset, a[0], a[1]);
	own = *h;
	if (own.pid == getpid() || own.pid == os_thread_id())
		own.pid = 0;
	if (own.pid || own.version != _LINUX_CAPABILITY_VERSION_3)
		return LIBC(syscall)(SYS_capset, a[0], a[1]); /* an error; or an old layout */
	b[0] = (unsigned long)&own;
	return change_all(SYS_capset, b);
}

bool rights_call(long number, const unsigned long *a, long *result)
{
	if (number != SYS_capset && number != SYS_landlock_restrict_self &&
	    !(number == SYS_prctl && changes_rights((int)a[0], a[1])))
		return false;
	if (!rights_are_of_program())
		return false;
	*result = number == SYS_capset ? set_capabilities(a) : change_all(number, a);
	return true;
}

HOOK int capset(cap_user_header_t header, const cap_user_data_t data)
{
	return (int)syscall(SYS_capset, header, data);
}

static void begin(void)
{
	pthread_spin_init(&change.spin, PTHREAD_PROCESS_PRIVATE);
}

__attribute__((constructor(102))) static void begin_first(void)
{
	begin();
	tlsblock_on_note(repeat_sig);
	pthread_atfork(NULL, NULL, begin);
}
