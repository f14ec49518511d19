/* SPDX-License-Identifier: MIT */
/*
 * Whole programs on green threads: gmp-run preloads this library, whose __libc_start_main runs main
 * as the first green thread of a runtime.
 *
 * main never ends its green thread, which would end the run: it returns into exit, or parks after
 * pthread_exit, and then the last thread calls exit(0).
 *
 * Fork.  The child has one thread, on the stack and with the block of the green thread that forked.
 * Until it makes another thread it is an OS thread, and replaced functions are libc's own for it.
 * Its first pthread_create starts a runtime, of which it is the first green thread:
 *
 *   the child's first thread, on the stack S and with      other OS threads
 *   the block B of the green thread that forked
 *    1 fork returns; the table of threads is empty;
 *      forked = its record; B gets a new thread id, and
 *      a second block H the kernel's; calls of libc block
 *    2 pthread_create: no runtime is on: adopt
 *    3 run_adopt (run.c): a G of a new runtime gets S and
 *      B; sysmon starts                                    a sysmon waits
 *    4 H becomes the OS thread's own block; the context
 *      of the G is saved on S
 *    5 on a new stack: load H; signal handlers may run;
 *      state = RUN_ON; mstart: the OS thread is an M
 *    6 the M wakes another one, loads B and resumes the G  b an M looks for work, polls, and runs
 *    7 its record is entered in the table; forked = NULL     timers
 *    8 as a G: pthread_create continues                    c as in every run
 *    9 exit; or the end of its function (of main: exit),
 *      or pthread_exit: wait                               d the last thread that leaves: exit(0)
 *
 * If the thread cannot be adopted in step 2 (PROGRAM-4), gmp_start starts the runtime, and the
 * thread is an external thread of it.
 *
 * Invariants
 *   -          In the child of a fork no other thread exists, so nothing of the parent's table is
 *              used there except the record of the caller.  Until step 7 its g struct is the
 *              parent's, of which only the stack and its class are read.
 *   PROGRAM-3  pthread_self(), thread-locals, addresses on the stack and the owner of locks that
 *              the first thread takes are the same in steps 1 to 9.  What it held at the fork has
 *              the parent's thread as its owner, as natively (TLSBLOCK-8).
 *   PROGRAM-4  Only the first thread itself is adopted, on S, outside of signal handlers and of
 *              gmp_once_do, and if no runtime is on.  Otherwise B and its id stay, and H answers
 *              setuid for the thread (TLSBLOCK-7).
 *   -          The first thread counts as main: its record is_main, and its G never ends.  So S is
 *              not given back, and a join of it waits for main_ended.
 *   -          A child that makes no thread has no runtime.
 *   -          Step 1 is before the fork handlers of libraries (atfork.c).  H, which needs memory,
 *              is made after handlers that were registered earlier.
 *
 * Rejected: adoption at the first call that would wait.  A thread that is alone keeps no other one
 * from running while it blocks, and each child that reads from a pipe before exec would get four
 * OS threads.
 */
#include <dlfcn.h>
#include <string.h>

#include "base/os.h"
#include "posix/program/atfork.h"
#include "posix/signal/kill.h"
#include "posix/signal/mask.h"
#include "posix/signal/settle.h"
#include "posix/signal/sigtable.h"
#include "posix/signal/sigthread.h"
#include "posix/thread/alive.h"
#include "posix/thread/later.h"
#include "posix/thread/registry.h"

/* gmp-run sets it: 1, or once: programs that this one starts run without. */
#define MARK "GMP_RUN"

/* THREADS_MOST: the largest value of max_threads. */
enum { STACK_MOST = 1 << 30, THREADS_MOST = 1000000, EXIT_CANNOT_RUN = 126 };

static struct {
	int (*main)(int argc, char **argv, char **envp);
	int argc;
	char **argv, **envp;
} program;

/* --- main --- */

/* The calling G is the first one of the run. */
static void enter_first(struct thread *t)
{
	t->g = own_green();
	t->run = run_number();
	t->is_main = true;
	t->mask = mask_to_inherit();
	run_ends_by_signals();
	threads_lock();
	thread_enter(t);
	threads_unlock();
}

static void enter_main(struct thread *t)
{
	t->self = pthread_self();
	program_begin_whole();
	enter_first(t);
}

static _Noreturn void call_main(void)
{
	exit(program.main(program.argc, program.argv, program.envp));
}

static void program_main(void *arg)
{
	struct thread *t = arg;
	__pthread_unwind_buf_t base;

	if (!getm()) { /* GMP_SCHED=thread: all threads are libc's */
		alive_count_self();
		call_main();
	}
	enter_main(t);
	if (!__sigsetjmp_cancel(base.__cancel_jmp_buf, 0)) {
		__pthread_register_cancel(&base);
		call_main();
	}
	program_main_left(t);
}

/* The size of stacks of pthread_create without attributes. */
static size_t default_stack(void)
{
	pthread_attr_t attr;
	size_t size = 0;

	if (getenv("GMP_STACK_SIZE") || pthread_attr_init(&attr))
		return 0;
	pthread_attr_getstacksize(&attr, &size);
	pthread_attr_destroy(&attr);
	return min_of(size, (size_t)STACK_MOST);
}

static gmp_config configure(void)
{
	gmp_config cfg = GMP_CONFIG_INIT;

	cfg.flags = GMP_OWN_TLS;
	cfg.stack_size = default_stack();
	if (!getenv("GMP_MAX_THREADS"))
		cfg.max_threads = THREADS_MOST; /* natively the system alone bounds them */
	return cfg;
}

/* gmp-run has not checked the libraries of the program, nor the programs that this one starts. */
static void refuse_sanitizers(const char *name)
{
	static const char *const known[][2] = {
#define SANITIZER(init, name) { #init, name },
#include "posix/program/sanitizers.def"
#undef SANITIZER
	};

	for (size_t i = 0; i < countof(known); i++) {
		if (!dlsym(RTLD_DEFAULT, known[i][0]))
			continue;
		fprintf(stderr,
			"gmp-run: %s or a library of it is built with %s, which does not know the "
			"stacks of green threads\n",
			name, known[i][1]);
		_exit(EXIT_CANNOT_RUN);
	}
}

static int on_main_thread(int argc, char **argv, char **envp)
{
	gmp_config cfg = configure();
	struct thread *t = thread_record();

	program.argc = argc;
	program.argv = argv;
	program.envp = envp;
	/* SIGTAB-9; and a write to a broken pipe ends the process, as natively: the runtime
	 * replaces the default action only (SIGNAL-2 of faultsig.c) */
	signal_hold_always(mask_of_writes());
	int err = t ? gmp_run(program_main, t, &cfg) : -ENOMEM;

	fprintf(stderr, "gmp-run: cannot run %s: %s\n", argv[0], strerror(-err));
	return EXIT_CANNOT_RUN;
}

/* Removes this library from the list LD_PRELOAD; it is the first entry (tools/run). */
static void forget_mark(void)
{
	const char *list = getenv("LD_PRELOAD");
	const char *rest = list ? strpbrk(list, ": ") : NULL;

	unsetenv(MARK);
	if (rest && rest[1])
		setenv("LD_PRELOAD", rest + 1, 1);
	else
		unsetenv("LD_PRELOAD");
}

HOOK int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
			   void (*init)(void), void (*fini)(void), void (*rtld_fini)(void),
			   void *stack_end)
{
	const char *mark = getenv(MARK);

	if (mark) {
		refuse_sanitizers(argv[0]);
		program.main = main;
		main = on_main_thread;
		if (strcmp(mark, "once") == 0)
			forget_mark();
	}
	return LIBC(__libc_start_main)(main, argc, argv, init, fini, rtld_fini, stack_end);
}

/* --- fork --- */

/* PROGRAM-4 */
static bool may_be_adopted(const struct thread *t)
{
	return t && !handler_runs() && !gmp__external_cleanups() &&
	       is_on_stack_sig(t->g, (uintptr_t)__builtin_frame_address(0));
}

/* libc's cancellation, which is disabled in the block of a green thread. */
static void take_cancel_state(struct thread *t)
{
	int state, type;

	LIBC(pthread_setcancelstate)(PTHREAD_CANCEL_DISABLE, &state);
	LIBC(pthread_setcanceltype)(PTHREAD_CANCEL_DEFERRED, &type);
	t->disabled = state == PTHREAD_CANCEL_DISABLE;
	t->async = type == PTHREAD_CANCEL_ASYNCHRONOUS;
}

static void give_cancel_state(const struct thread *t)
{
	LIBC(pthread_setcancelstate)(t->disabled, NULL);
	LIBC(pthread_setcanceltype)(t->async, NULL);
}

/* Steps 2 to 7.  Returns false if the caller is not adopted. */
static bool adopt(void)
{
	struct thread *t = forked_self();
	gmp_config cfg = configure();

	if (!may_be_adopted(t))
		return false;
	take_cancel_state(t);
	struct adoption a = {
		.fn = program_main,
		.arg = t,
		.on = t->g,
		.masked = (uint8_t)(t->disabled + t->exiting),
		.cancelled = t->pending,
	};

	if (run_adopt(&a, &cfg)) {
		give_cancel_state(t);
		return false;
	}
	program_adopted();
	enter_first(t);
	sigthread_adopt();
	return true;
}

/* A runtime of which the caller is an external thread. */
static bool start_runtime(void)
{
	gmp_config cfg = configure();

	while (!run_is_on()) {
		int err = gmp_start(&cfg);

		if (err && err != -EBUSY)
			return false;
		os_yield();
	}
	return true;
}

static bool program_is_started(void)
{
	return program.main || getenv(MARK);
}

/* Step 2.  errno stays. */
static noinline bool begin_runtime(void)
{
	int saved = errno;
	bool on = adopt() || start_runtime();

	errno = saved;
	return on;
}

static bool program_runs(void)
{
	return program_is_whole() && (run_is_on() || begin_runtime()) && likely(!run_has_threads());
}

const struct thread_upcalls gmp__thread_up = {
	.main = program_main,
	.program_runs = program_runs,
	.program_is_started = program_is_started,
	.mask_to_inherit = mask_to_inherit,
	.mask_inherit = mask_inherit,
	.cancelled = kill_cut_sigwait,
	.cancelled_in_libc = settle_interrupts,
};

/* Step 1.  Before fork_child of run/fork.c: the caller is still a green thread. */
static void in_child(void)
{
	struct g *gp = own_green();
	struct thread *t = gp ? thread_of(gp) : forked_self(); /* the child of such a child */

	kill_forget(t);
	threads_forget();
	program_forked(t);
	if (!t)
		return;
	t->is_main = true;
	t->joiner = t->joins = 0;
	if (gp && green_has_own_tls(gp))
		give_cancel_state(t);
	if (program_is_whole())
		tlsblock_keep(block_of_self(t->self));
}

/* After all handlers of this library. */
static void late_in_child(void)
{
	struct thread *t = forked_self();

	if (t && program_is_whole())
		tlsblock_second(block_of_self(t->self));
	else if (!getm())
		alive_count_self();
}

__attribute__((constructor(102))) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, in_child);
	atfork_late(late_in_child);
}
