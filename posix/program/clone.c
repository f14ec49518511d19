/* SPDX-License-Identifier: MIT */
/*
 * Replaces clone, _Fork, and the system calls that make a child without libc's fork.
 *
 *   the child                                     what differs from a native child
 *   a copy of the memory (no CLONE_VM)            the state is that of a fork's child: the handlers
 *                                                 of this library run first (atfork.c), and no
 *                                                 others, as natively
 *   the same memory; its creator waits            nothing: as the child of a vfork (vfork.c)
 *   (CLONE_VM with CLONE_VFORK)
 *   the same memory, beside its creator: a        a thread-local block of its own, with the initial
 *   process, or a thread (CLONE_THREAD)           values, unless it has CLONE_SETTLS
 *
 * The call is blocking code with the mask of the green thread, as a vfork.
 *
 * Invariants
 *   -        No child is taken for the M that has made it, so the green threads of the parent run
 *            in the parent alone, and the child's calls are libc's.  A copy forgets the M.  In a
 *            block that a child shares with a creator that waits, the M is in blocking code.
 *            Another child has a block without an M.
 *   -        A copy takes no memory from malloc before code of the program runs: another thread of
 *            the parent may have had malloc's lock.  So its second block is made before
 *            (TLSBLOCK-7).
 *   CLONE-3  The block of a child beside its creator is in use until the kernel clears the tid of
 *            the slot, at the child's end or exec.  If the program uses CLONE_CHILD_CLEARTID
 *            itself, the slot stays in use.
 *   CLONE-4  The child of syscall() would overwrite the stack from which its parent returns.  So
 *            CLONE_VM with CLONE_VFORK and no other stack makes a copy.
 *   CLONE-5  The kernel has one pointer for CLONE_CHILD_SETTID and CLONE_CHILD_CLEARTID.  If the
 *            slot needs it, the child stores its tid for the program before the program's code.
 */
#include "posix/program/clone.h"

#include <linux/sched.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "base/os.h"
#include "posix/call/user.h"
#include "posix/program/atfork.h"
#include "posix/program/vfork.h"

/* CLONE-3.  Never freed. */
struct clone_slot {
	struct clone_slot *next;
	struct tlsblock *block;
	int tid; /* (a) 0: the block is free; -1: in use without an end */
};

static struct {
	pthread_mutex_t lock; /* libc's calls alone */
	struct clone_slot *all;
} slots = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* --- children beside their creator --- */

static struct clone_slot *new_slot_locked(void)
{
	const char *why;
	struct tlsblock *b = tlsblock_probe(&why) ? NULL : tlsblock_new();
	struct clone_slot *s = b ? malloc(sizeof(*s)) : NULL;

	if (s) {
		*s = (struct clone_slot){ slots.all, b, -1 };
		slots.all = s;
	} else if (b) {
		tlsblock_free(b);
	}
	return s;
}

static struct clone_slot *free_slot_locked(void)
{
	struct clone_slot *s = slots.all;

	while (s && ld_acq(&s->tid)) /* ORD(lock): the kernel's store follows the last use */
		s = s->next;
	if (s) {
		st_rlx(&s->tid, -1);
		tlsblock_reset(s->block);
	}
	return s;
}

/* NULL without memory. */
static struct clone_slot *take_slot(void)
{
	signals_hold();
	LIBC(pthread_mutex_lock)(&slots.lock);
	struct clone_slot *s = free_slot_locked();

	if (!s)
		s = new_slot_locked();
	LIBC(pthread_mutex_unlock)(&slots.lock);
	signals_release();
	if (s)
		tlsblock_prepare(s->block, NULL, 0);
	return s;
}

static void forget_slots(void)
{
	pthread_mutex_init(&slots.lock, NULL);
	slots.all = NULL;
}

/* True if a child of the caller needs a block of its own.  If the caller waits (CLONE_VFORK), only
 * a caller that cannot be in blocking code needs one: a signal handler. */
static bool needs_slot(uint64_t flags)
{
	bool waits = flags & CLONE_VFORK && (!getm() || hook_how() != HOOK_LIBC);

	return flags & CLONE_VM && !(flags & CLONE_SETTLS) && !waits && (getm() || gmp__blockedm());
}

/* --- clone --- */

/* Lies at the top of the child's stack. */
struct start {
	int (*fn)(void *arg);
	void *arg;
	struct tlsblock *block; /* NULL: the child is a copy */
	pid_t *tid;             /* CLONE-5; or NULL */
};

/* Not inlined: the compiler must not read anything by the former thread pointer. */
static noinline void begin_child(struct tlsblock *b)
{
	if (!b) {
		atfork_copied();
		return;
	}
	arch_set_tp(b);
	tlsblock_first();
}

static int start_child(void *arg)
{
	struct start s = *(struct start *)arg;

	begin_child(s.block);
	if (s.tid) {
		pid_t tid = os_thread_id();

		(void)user_write(s.tid, &tid, sizeof(tid)); /* the kernel ignores EFAULT, too */
	}
	return s.fn(s.arg);
}

struct clone_call {
	int (*fn)(void *arg);
	void *stack;
	int flags;
	void *arg;
	pid_t *parent_tid;
	void *tls;
	pid_t *child_tid;
};

static int call_clone(const struct clone_call *c)
{
	int begun = gmp__vfork_begin();
	int pid =
		LIBC(clone)(c->fn, c->stack, c->flags, c->arg, c->parent_tid, c->tls, c->child_tid);

	return gmp__vfork_end(begun, pid < 0 ? -errno : pid);
}

/* The child begins in start_child. */
static int clone_by(struct clone_call c, struct tlsblock *b, pid_t *tid)
{
	uintptr_t at = ((uintptr_t)c.stack - sizeof(struct start)) & -(uintptr_t)16;

	*(struct start *)at = (struct start){ c.fn, c.arg, b, tid };
	c.fn = start_child;
	c.arg = c.stack = (void *)at;
	return call_clone(&c);
}

static int clone_beside(struct clone_call c)
{
	struct clone_slot *s = take_slot();
	pid_t *tid = NULL;

	if (!s) {
		errno = EAGAIN;
		return -1;
	}
	if (!(c.flags & CLONE_CHILD_CLEARTID)) {
		if (c.flags & CLONE_CHILD_SETTID)
			tid = c.child_tid;
		c.flags = (c.flags | CLONE_CHILD_CLEARTID) & ~CLONE_CHILD_SETTID;
		c.child_tid = &s->tid;
	}
	int pid = clone_by(c, s->block, tid);

	if (pid < 0)
		st_rlx(&s->tid, 0);
	return pid;
}

static int make_child(const struct clone_call *c)
{
	if (!c->fn || !c->stack) /* EINVAL */
		return call_clone(c);
	if (!(c->flags & CLONE_VM)) {
		atfork_prepare_copy();
		return clone_by(*c, NULL, NULL);
	}
	return needs_slot((unsigned)c->flags) ? clone_beside(*c) : call_clone(c);
}

HOOK int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	struct clone_call c = { .fn = fn, .stack = stack, .flags = flags, .arg = arg };
	va_list list;

	va_start(list, arg); /* what the caller has not given is read, too, as libc does */
	c.parent_tid = va_arg(list, pid_t *);
	c.tls = va_arg(list, void *);
	c.child_tid = va_arg(list, pid_t *);
	va_end(list);
	return make_child(&c);
}

HOOK_ALIAS(__clone, clone);

/* --- copies --- */

HOOK pid_t _Fork(void)
{
	if (hook_how() != HOOK_LIBC)
		atfork_prepare_copy();
	pid_t pid = LIBC(_Fork)();

	if (pid == 0)
		atfork_copied();
	return pid;
}

/* With flags and stack in a[], by the kernel's numbers. */
static long copy_by_syscall(long number, const unsigned long *a)
{
	if (hook_how() != HOOK_LIBC)
		atfork_prepare_copy();
	int begun = gmp__vfork_begin();
	long result = LIBC(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);

	if (result == 0) {
		atfork_copied();
		return 0;
	}
	return gmp__vfork_end(begun, result < 0 ? -errno : result);
}

static bool waits_without_a_stack(uint64_t flags, uint64_t stack)
{
	return flags & CLONE_VM && flags & CLONE_VFORK && !stack;
}

static long clone_syscall(const unsigned long *a)
{
	unsigned long b[6] = { a[0], a[1], a[2], a[3], a[4], a[5] };

	if (waits_without_a_stack(a[0], a[1])) /* CLONE-4 */
		b[0] &= ~(unsigned long)CLONE_VM;
	if (b[0] & CLONE_VM)
		return LIBC(syscall)(SYS_clone, a[0], a[1], a[2], a[3], a[4]);
	return copy_by_syscall(SYS_clone, b);
}

/* Returns 0, E2BIG if a byte is not 0, or EFAULT. */
static int check_zero(uintptr_t at, size_t n)
{
	if (n > PAGE)
		return E2BIG;
	if (!user_reads((const void *)at, n))
		return EFAULT;
	for (size_t i = 0; i < n; i++)
		if (((const char *)at)[i])
			return E2BIG;
	return 0;
}

/* CLONE-4.  args: the first `known` bytes at a[0]; the rest has no field here. */
static long clone3_as_copy(struct clone_args args, const unsigned long *a, size_t known)
{
	int err = check_zero(a[0] + known, a[1] - known);

	if (err)
		return hook_return(-err);
	args.flags &= ~(uint64_t)CLONE_VM;
	return copy_by_syscall(SYS_clone3, (unsigned long[6]){ (unsigned long)&args, known });
}

static long clone3_syscall(const unsigned long *a)
{
	struct clone_args args = { 0 };
	size_t known = min_of((size_t)a[1], sizeof(args));

	if (a[1] < CLONE_ARGS_SIZE_VER0 || !user_read(&args, (const void *)a[0], known))
		return LIBC(syscall)(SYS_clone3, a[0], a[1]); /* an error */
	if (waits_without_a_stack(args.flags, args.stack))
		return clone3_as_copy(args, a, known);
	if (args.flags & CLONE_VM)
		return LIBC(syscall)(SYS_clone3, a[0], a[1]);
	return copy_by_syscall(SYS_clone3, (unsigned long[6]){ a[0], a[1] });
}

long clone_call(long number, const unsigned long *a)
{
	if (number == SYS_clone3)
		return clone3_syscall(a);
#ifdef SYS_vfork
	if (number == SYS_vfork) /* CLONE-4 */
		return clone_syscall((unsigned long[6]){ CLONE_VM | CLONE_VFORK | SIGCHLD });
	if (number == SYS_fork)
		return copy_by_syscall(number, a);
#endif
	return clone_syscall(a);
}

IN_FORK_CHILD(forget_slots)
