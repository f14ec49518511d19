/* SPDX-License-Identifier: MIT */
/*
 * Thread-local blocks: what libc keeps for an OS thread, for a green thread of its own.
 *
 * A block is the memory that the thread pointer selects: the thread-locals of the program and of
 * all libraries (errno, the locale, malloc's cache), the table of blocks of modules that were
 * loaded later, and libc's thread struct above them (pthread_self(), the values of pthread keys,
 * the owner id of mutexes).  glibc allocates it as for a new OS thread.  No kernel thread belongs
 * to it.  variant/owntls.h tells when a block is loaded.
 *
 * What differs from the block of an OS thread
 *   thread id        above the kernel's maximum, unique in the process, and probably among
 *                    processes (TLSBLOCK-8).  Mutexes use it as their owner.  Calls that give it to
 *                    the kernel (pthread_kill, pthread_getcpuclockid) find no such thread
 *   detached         pthread_join and pthread_detach of it are EINVAL; since glibc 2.43
 *                    pthread_join of the caller is EDEADLK
 *   rseq             not registered: sched_getcpu makes a call of the kernel
 *   robust mutexes   the kernel does not know their list; tlsblock_last walks it
 *   cancellation     disabled, as on an M
 *   stack            that of the green thread
 *
 * Invariants
 *   -           Each block is in glibc's list of threads on user-provided stacks.  So dlopen
 *               initializes the variables of a library with static thread-locals in it.  setuid and
 *               the like find no kernel thread for it, and skip it.
 *   TLSBLOCK-2  A block that is reused has the initial values of all variables, except those of
 *               libc: the resolver's state and buffers of libc stay with it, since they cannot be
 *               freed from outside, and so does malloc's arena.  errno, h_errno, the locale and the
 *               message of dlerror are reset.
 *   TLSBLOCK-3  The images of the variables are private copies, so that a dlclose meanwhile does
 *               no harm.  They are made again when a module has come or gone.
 *   TLSBLOCK-4  The handler of glibc's signal for setuid runs with the OS thread's own block.  It
 *               answers through the thread pointer: the answer of a green thread's block would not
 *               be seen, and the caller of setuid would wait forever.
 *   TLSBLOCK-5  The block of a green thread that was killed at shutdown gets another thread id: the
 *               green thread may hold mutexes by the former id, which stay locked.  Destructors are
 *               dropped and not run.  malloc is not at work in the block: the green thread has
 *               stopped in a call of gmp, which malloc does not make, or has not run.  A green
 *               thread that was preempted continues on its OS thread until such a call, or is
 *               abandoned; then its block is not renewed.
 *   TLSBLOCK-6  malloc's cache is that of the host: each load copies the pointer to it.  No other
 *               thread uses it, since a green thread does not leave its stack inside malloc, and g0
 *               does not run meanwhile.  The pointer of a parked green thread may be stale, and is
 *               not read.  A host has its cache before its first load: otherwise each load would
 *               lose that which malloc has made in the block.  If the probe does not find the
 *               pointer, each block has a cache of its own.
 *   TLSBLOCK-7  The kernel's id of an OS thread is in its own block, never in that of a green
 *               thread: setuid signals by these ids, and the handler answers with the former.  The
 *               only thread of a fork's child may become a green thread later, with the block that
 *               it has and the mutexes that it holds.  So tlsblock_keep gives that block an id of
 *               the other kind at once, and a second block, which is never loaded, has the kernel's
 *               id and answers.  It is the OS thread's own block from tlsblock_own on.
 *   TLSBLOCK-8  The ids of a process begin at a place that its pid gives; the child of a fork has a
 *               place of its own.  So processes that share a mutex have different ids, as natively.
 *               Only ids of processes with many blocks can meet.
 *
 * TLSBLOCK-6 saves memory: a cache keeps up to 7 blocks of each of 64 sizes.  Measured with
 * stunnel4 (OpenSSL) after 1,000 handshakes: 27 KB of 82 KB for each connection, open or ended.
 */
#ifndef GMP_TLSBLOCK_H
#define GMP_TLSBLOCK_H

#include "base/base.h"

struct m;

/* The address of a block is the thread pointer that selects it. */
struct tlsblock;

/* Where base/tls.h has its variables in each block.  Set by the probe. */
extern struct tlsblock_offsets {
	ptrdiff_t m, host;
	ptrdiff_t cache; /* TLSBLOCK-6; 0: not found */
	void *no_cache;  /* the pointer in a thread that has not used malloc */
} gmp__tlsblock_at __attribute__((visibility("hidden")));

/* The next one in a list of free blocks: in place of the host, which only a loaded block has. */
static inline struct tlsblock **tlsblock_next(struct tlsblock *b)
{
	return (struct tlsblock **)(void *)((char *)b + gmp__tlsblock_at.host);
}

/* Check once whether blocks can be made here.  Returns 0, -EAGAIN if the system gives no OS thread,
 * or -ENOTSUP with a text in *why.  Not on g0. */
int tlsblock_probe(const char **why);
/* TLSBLOCK-4: from now on; no longer. */
void tlsblock_signals_begin(void);
void tlsblock_signals_end(void);
/* The same signal as a note from this process: fn is called in place of libc's handler, with the
 * block of the OS thread.  Before the first run. */
void tlsblock_on_note(void (*fn)(void));
/* Send a note to an OS thread.  Returns 0, or -1: there is no such thread. */
int tlsblock_note_send(int tid);

/* A new block with initial values; NULL without memory. */
struct tlsblock *tlsblock_new(void);
/* Free a block.  What libc has allocated for its own variables is lost. */
void tlsblock_free(struct tlsblock *b);
/* TLSBLOCK-5, with another block loaded: the block of a green thread that was killed is as after
 * tlsblock_reset.  Returns false if that cannot be: the caller frees it. */
bool tlsblock_renew(struct tlsblock *b);

/* Before the first load for a green thread with this stack. */
void tlsblock_prepare(struct tlsblock *b, char *stack, size_t bytes);
/* With the block loaded, before any code of the green thread. */
void tlsblock_first(void);
/* With the block loaded, on the stack of the green thread, which ends: run the destructors of C++
 * thread-locals and of pthread keys, and mark the robust mutexes that it holds.  May wait. */
void tlsblock_last(void);
/* TLSBLOCK-2, on g0 with another block loaded. */
void tlsblock_reset(struct tlsblock *b);

/* In the child of a fork.  If the caller of fork had the block of a green thread, its only thread
 * has it now. */
void tlsblock_forked(void);
/* In the child, before or after tlsblock_forked, without a call of malloc: give b, which is loaded,
 * and has the kernel's thread id, one of its own (TLSBLOCK-7). */
void tlsblock_keep(struct tlsblock *b);
/* After both: the second block of b; the first call makes it.  NULL without memory: until a later
 * call makes it, setuid does not change the thread. */
struct tlsblock *tlsblock_second(struct tlsblock *b);
/* In the parent: from now on a child's tlsblock_second needs no memory, if there is some now. */
void tlsblock_prepare_second(void);
/* b, the second block of the loaded one, becomes the calling OS thread's own.  The stack is that of
 * the OS thread. */
void tlsblock_own(struct tlsblock *b, char *stack, size_t bytes);

/* On g0, with the host's block loaded: malloc makes its cache.  Without memory there is none. */
void tlsblock_begin_cache(void);

/* TLSBLOCK-6. */
static inline void tlsblock_share_cache(struct tlsblock *b, void *host)
{
	ptrdiff_t at = gmp__tlsblock_at.cache;
	void **hosts = (void **)(void *)((char *)host + at);

	if (unlikely(!at))
		return;
	if (unlikely(*hosts == gmp__tlsblock_at.no_cache))
		tlsblock_begin_cache();
	*(void **)(void *)((char *)b + at) = *hosts;
}

/* The host runs m on g0, and is about to jump to the green thread of b. */
static inline void tlsblock_load(struct tlsblock *b, struct m *m, void *host)
{
	tlsblock_share_cache(b, host);
	*(struct m **)(void *)((char *)b + gmp__tlsblock_at.m) = m;
	*(void **)(void *)((char *)b + gmp__tlsblock_at.host) = host;
	/* a signal handler may come between any two of these */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	arch_set_tp(b);
}

#endif
