/* SPDX-License-Identifier: MIT */
/*
 * Whole programs on green threads: gmp-run preloads this library, whose __libc_start_main runs main
 * as the first green thread of a runtime.
 *
 * main never ends its green thread, which would end the run: it returns into exit, or parks after
 * pthread_exit, and then the last thread calls exit(0).
 *
 * Fork.  The child has one thread, which is an OS thread on the stack and with the block of the
 * green thread that forked (sys/fork.c).  Replaced functions are libc's own for it.
 *
 *   the child's first thread                     another thread of the child
 *    1 fork returns; the table of threads is
 *      empty; forked = its record
 *    2 pthread_create: no runtime is on:
 *      gmp_start                                  a a green thread, which parks
 *    3 it may join, signal and lock as any
 *      external thread
 *    4 exit, or the end of its function: exit     b the last one, if the first thread has left by
 *      (of main), or pthread_exit: wait             pthread_exit: exit(0)
 *
 * So a daemon has a runtime from its first pthread_create on, and its first thread uses one OS
 * thread more.
 *
 * Invariants
 *   PROGRAM-1  `alive` counts the threads of main and of pthread_create that have not left: the
 *              thread that makes it 0 calls exit.  A thread leaves after its function; it may still
 *              run destructors.
 *   PROGRAM-2  In the child of a fork no other thread exists, so nothing of the parent's table is
 *              used there except the record of the caller.
 *
 * Rejected: to continue the child's first thread as a green thread.  Its stack belongs to the
 * runtime of the parent, which the child must not use.
 */
#include <string.h>

#include "base/os.h"
#include "enter.h"
#include "mode/owntls.h"
#include "posix/thread.h"

/* gmp-run sets it: 1, or once: programs that this one starts run without. */
#define MARK "GMP_RUN"

enum { STACK_MOST = 1 << 30, EXIT_CANNOT_RUN = 126 };

static struct {
	int (*main)(int argc, char **argv, char **envp);
	int argc;
	char **argv, **envp;
	bool whole;            /* (c) main is a green thread */
	bool left;             /* (l) main's thread, or the first one of a child, has left */
	uint32_t alive;        /* (l) PROGRAM-1 */
	struct thread *forked; /* (c) the child's first thread; NULL in other processes */
} program;

/* --- the end of threads --- */

void program_thread_new(void)
{
	threads_lock();
	program.alive++;
	threads_unlock();
}

/* The calling thread is the last one. */
static void end_program(void)
{
	owntls_end();
	exit(0);
}

static bool leave(bool main_leaves)
{
	threads_lock();
	program.left |= main_leaves;
	bool last = --program.alive == 0 && program.left;

	threads_unlock();
	return last;
}

static _Noreturn void main_left(void)
{
	if (leave(true))
		end_program();
	for (;;)
		gmp_sleep_until(GMP_FOREVER);
}

void program_thread_left(void)
{
	if (!getm())
		main_left(); /* step 4 */
	if (leave(false))
		end_program();
}

/* --- main --- */

/* pthread_exit of main. */
static _Noreturn void main_exits(struct thread *t)
{
	thread_begin_exit(t);
	if (getm()) {
		owntls_end();
		threads_lock();
		if (t->state == THREAD_JOINABLE)
			t->state = THREAD_ENDED;
		else
			thread_remove(t);
		threads_unlock();
		gmp_sem_release(&main_ended, 1);
	}
	main_left();
}

static void enter_main(struct thread *t)
{
	t->self = pthread_self();
	t->g = getm()->curg;
	t->run = ld_rlx(&sched.run);
	t->is_main = true;
	sched.library = true; /* no report of a deadlock: a signal may end each wait */
	program.whole = true;
	program_thread_new();
	threads_lock();
	thread_enter(t);
	threads_unlock();
}

void program_main(void *arg)
{
	struct thread *t = arg;
	__pthread_unwind_buf_t base;

	if (getm()) /* NULL: GMP_SCHED=thread; then all threads are libc's */
		enter_main(t);
	if (!__sigsetjmp_cancel(base.__cancel_jmp_buf, 0)) {
		__pthread_register_cancel(&base);
		exit(program.main(program.argc, program.argv, program.envp));
	}
	main_exits(t);
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
	return cfg;
}

static void end_by_sigpipe(int sig)
{
	raise(sig); /* ends the process when the handler returns: SA_RESETHAND */
}

/* A write to a broken pipe ends the process, as natively: the runtime replaces the default action
 * only (SIGNAL-2 of faultsig.c). */
static void keep_sigpipe(void)
{
	struct sigaction now, end = { .sa_handler = end_by_sigpipe, .sa_flags = SA_RESETHAND };

	if (sigaction(SIGPIPE, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
		sigaction(SIGPIPE, &end, NULL);
}

static int on_main_thread(int argc, char **argv, char **envp)
{
	gmp_config cfg = configure();
	struct thread *t = thread_record();

	program.argc = argc;
	program.argv = argv;
	program.envp = envp;
	keep_sigpipe();
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
		program.main = main;
		main = on_main_thread;
		if (strcmp(mark, "once") == 0)
			forget_mark();
	}
	return LIBC(__libc_start_main)(main, argc, argv, init, fini, rtld_fini, stack_end);
}

/* --- fork --- */

struct thread *forked_thread(void)
{
	return program.forked;
}

/* Step 2. */
static bool start_runtime(void)
{
	gmp_config cfg = configure();

	while (ld_seq(&sched.state) != RUN_ON) { /* ORD(run) */
		int err = gmp_start(&cfg);

		if (err && err != -EBUSY)
			return false;
		os_yield();
	}
	return true;
}

bool program_is_whole(void)
{
	return program.whole;
}

bool program_runs(void)
{
	return program.whole && (ld_rlx(&sched.state) == RUN_ON || start_runtime());
}

/* Step 1.  Before fork_child of sys/fork.c: the caller is still a green thread. */
static void in_child(void)
{
	struct m *m = getm() ? getm() : gmp__blockedm();
	struct g *gp = m ? m->curg : NULL;

	if (gp)
		program.forked = gp->fn == thread_main || gp->fn == program_main ? gp->arg : NULL;
	threads_forget();
	program.alive = 1;
	program.left = false;
	struct thread *t = program.forked;

	if (gp && t && gp->resume & RESUME_OWN_TLS) {
		LIBC(pthread_setcancelstate)(t->disabled, NULL);
		LIBC(pthread_setcanceltype)(t->async, NULL);
	}
}

__attribute__((constructor(102))) static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, in_child);
}
