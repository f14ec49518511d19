/* SPDX-License-Identifier: MIT */
/*
 * Thread-local blocks of glibc; see machine/tlsblock.h.
 *
 * Rejected
 *   Freeing a block at the end of each green thread: 2 us, and malloc's cache would be lost.
 *   Marking blocks as exiting threads, so that setuid does not signal them: glibc then makes a call
 *   of futex for each instead of two of tgkill, and the bit is in no symbol.
 *   malloc's arena of the host, too: what many green threads have freed stays in the arena of the M
 *   that ran them, while those of other Ms grow: 151 MB instead of 50 MB after four times 1,000
 *   handshakes, with all connections closed.
 *   Blocks outside of glibc's list: a library that a green thread loads could not be initialized
 *   between dlopen and its first use.
 */
#include "machine/tlsblock.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <linux/rseq.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/libc.h"
#include "base/os.h"
#include "base/tls.h"
#include "machine/tlslayout.h"

/*
 * TID_FIRST, PID_BITS: the kernel's ids are below 2^22 (PID_MAX_LIMIT).  TID_MOST: the bits of a
 * futex that hold an owner.  HEAD: the part of the struct before the fields that threads differ in:
 * that other threads exist; on x86-64 also the canary of stack protectors and the key of saved
 * pointers.
 */
enum {
	TID_FIRST = 1 << 22,
	TID_MOST = 0x3fffffff,
	TIDS = TID_MOST + 1 - TID_FIRST,
	PID_BITS = 22,
	IDS_OF_PID = TIDS >> PID_BITS,
	HEAD_BEGIN = TLS_VARIABLES_BELOW ? 24 : 0,
	HEAD_END = TLS_VARIABLES_BELOW ? 80 : 8,
	CANCEL_DISABLED = 1,
	KEY_ROUNDS = 4,    /* PTHREAD_DESTRUCTOR_ITERATIONS */
	CODE_NOTE = -1004, /* with signal 33; those with others: posix/signal/siginfo.c */
	SHORT_ZERO = 256,  /* bytes */
};

#define UNALLOCATED ((void *)-1L)

/* glibc's signature of the handlers of restartable sequences. */
#if defined(__x86_64__)
#define RSEQ_SIGNATURE 0x53053053u
#elif defined(__aarch64__)
#define RSEQ_SIGNATURE 0xd428bc00u
#else
#define RSEQ_SIGNATURE 0xf1401073u
#endif

struct tlsblock_offsets gmp__tlsblock_at;

static const struct tls_layout *const lay = &gmp__tls_layout;

static struct {
	pid_t pid;      /* (c) in this process */
	uint32_t first; /* (c) */
	uint32_t n;     /* (a) given away */
} ids;

/* The thread that has forked, in the child. */
static struct {
	void *orphan;                     /* its block, which was a green thread's in the parent */
	struct tlsblock *loaded, *second; /* TLSBLOCK-7; NULL: there is no second block */
	struct tlsblock *spare;           /* (a) in the parent: a child's second block, or NULL */
} forked;

/* --- the variables of modules: TLSBLOCK-3 --- */

/* A module with a fixed offset. */
struct tls_image {
	ptrdiff_t at;
	size_t bytes, image_bytes; /* the rest is 0 */
	unsigned char *image;
};

/* Changes whenever a module with thread-locals comes or goes. */
struct tls_state {
	size_t generation, used;
};

/* Never freed: other threads may be using it.  There is one for each time that the modules have
 * changed. */
struct tls_images {
	struct tls_state state;
	bool failed; /* no memory */
	uint32_t n, room;
	struct tls_image images[];
};

static struct tls_images *images; /* (a) */

static inline struct tls_state state_now(void)
{
	struct tls_state now = { 0, ld_rlx(lay->static_used) };
	size_t left = ld_rlx(lay->modules) + 1;

	for (const struct tls_slots *s = *lay->slots; s && left; s = ld_rlx(&s->next)) {
		size_t n = min_of(s->n, left);

		for (size_t i = 0; i < n; i++)
			now.generation = max_of(now.generation, ld_rlx(&s->slot[i].generation));
		left -= n;
	}
	return now;
}

static bool same_state(const struct tls_state *a, const struct tls_state *b)
{
	return a->generation == b->generation && a->used == b->used;
}

/* The struct of module number id; NULL: it has gone. */
static const char *module_map(size_t id)
{
	const struct tls_slots *s = *lay->slots;

	while (s && id >= s->n) {
		id -= s->n;
		s = s->next;
	}
	return s ? s->slot[id].map : NULL;
}

/* Where the block of module number id is.  Returns false if it has no fixed place. */
static bool module_place(size_t id, ptrdiff_t *at)
{
	const char *map = module_map(id);

	if (!map)
		return false;
	ptrdiff_t offset = *(const ptrdiff_t *)(map + lay->map_offset);

	*at = TLS_VARIABLES_BELOW ? -offset : offset;
	return offset >= TLS_LEAST_OFFSET;
}

static void add_image(struct tls_images *all, const struct dl_phdr_info *info,
		      const ElfW(Phdr) * ph)
{
	ptrdiff_t at;

	if (!module_place(info->dlpi_tls_modid, &at) ||
	    (lay->errno_at >= at && lay->errno_at < at + (ptrdiff_t)ph->p_memsz))
		return; /* TLSBLOCK-2 */
	struct tls_image *i = &all->images[all->n];

	*i = (struct tls_image){ at, ph->p_memsz, ph->p_filesz, NULL };
	if (ph->p_filesz) {
		i->image = malloc(ph->p_filesz);
		if (!i->image) {
			all->failed = true;
			return;
		}
		memcpy(i->image, (const void *)(info->dlpi_addr + ph->p_vaddr), ph->p_filesz);
	}
	all->n++;
}

/* The dynamic linker's lock keeps the modules of this list from being unmapped. */
static int add_module(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct tls_images *all = arg;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_modid &&
		    all->n < all->room)
			add_image(all, info, &info->dlpi_phdr[i]);
	return all->failed;
}

static void free_images(struct tls_images *all)
{
	while (all->n > 0)
		free(all->images[--all->n].image);
	free(all);
}

/* Returns the images of the present modules; NULL without memory. */
static noinline struct tls_images *images_renew(struct tls_images *old)
{
	struct tls_state state = state_now();
	uint32_t room = (uint32_t)ld_rlx(lay->modules) + 1;
	struct tls_images *all = calloc(1, sizeof(*all) + room * sizeof(all->images[0]));

	if (!all)
		return NULL;
	all->state = state; /* read before: a module that comes meanwhile is found next time */
	all->room = room;
	dl_iterate_phdr(add_module, all);
	if (all->failed) {
		free_images(all);
		return NULL;
	}
	if (cas_rel(&images, &old, all)) /* ORD(owntls) */
		return all;
	free_images(all);
	return ld_acq(&images); /* ORD(owntls): another thread was first */
}

static inline struct tls_images *images_now(void)
{
	struct tls_images *all = ld_acq(&images); /* ORD(owntls) */
	struct tls_state now = state_now();

	if (likely(all && same_state(&all->state, &now)))
		return all;
	return images_renew(all);
}

/* --- making blocks --- */

/* memset(to, 0, bytes), without a call if that is short. */
static inline void zero(char *to, size_t bytes)
{
	if (unlikely(bytes > SHORT_ZERO)) {
		memset(to, 0, bytes);
		return;
	}
	for (; bytes >= 16; bytes -= 16, to += 16)
		__builtin_memset(to, 0, 16);
	while (bytes--)
		*to++ = 0;
}

static void write_word(char *tp, ptrdiff_t at, const void *value)
{
	*(const void **)tls_at(tp, at) = value;
}

static void write_int(char *tp, ptrdiff_t at, int value)
{
	*(int *)tls_at(tp, at) = value;
}

/* pthread_join and pthread_detach of the thread fail. */
static void mark_detached(char *tp)
{
	if (lay->detached_state)
		write_int(tp, lay->detached, lay->detached_state);
	else
		write_word(tp, lay->detached, tp + lay->self);
}

static void list_add(struct tls_list *l)
{
	tlslayout_lock(lay->lock);
	l->next = lay->threads->next;
	l->prev = lay->threads;
	l->next->prev = l;
	lay->threads->next = l;
	tlslayout_unlock(lay->lock);
}

static void list_remove(struct tls_list *l)
{
	tlslayout_lock(lay->lock);
	l->next->prev = l->prev;
	l->prev->next = l->next;
	tlslayout_unlock(lay->lock);
}

static void fill_rseq(char *tp)
{
	struct rseq *area = tls_at(tp, lay->rseq);

	memset(area, 0, lay->rseq_bytes);
	area->cpu_id = (uint32_t)RSEQ_CPU_ID_REGISTRATION_FAILED;
}

static void empty_robust(char *tp)
{
	const ptrdiff_t word = sizeof(void *);
	char *robust = tp + lay->robust;

	write_word(tp, lay->robust - word, robust);
	write_word(tp, lay->robust, robust);
	write_word(tp, lay->robust + 2 * word, NULL);
}

static void fill_robust(char *tp)
{
	memcpy(tp + lay->robust, arch_tp() + lay->robust, TLS_ROBUST_BYTES); /* the offset in it */
	empty_robust(tp);
}

/* Fill what pthread_create fills for an OS thread. */
static void fill_thread(char *tp, int tid)
{
	char *own = arch_tp();
	ptrdiff_t first = lay->specific - TLS_KEYS_PER_TABLE * (ptrdiff_t)sizeof(struct tls_value);

	memcpy(tp + lay->self + HEAD_BEGIN, own + lay->self + HEAD_BEGIN, HEAD_END - HEAD_BEGIN);
	if (TLS_VARIABLES_BELOW) {
		write_word(tp, 0, tp);
		write_word(tp, TLS_TCB_SELF, tp);
	}
	write_int(tp, lay->tid, tid);
	fill_robust(tp);
	write_word(tp, lay->specific, tp + first);
	mark_detached(tp);
	*(void **)tls_at(tp, lay->resp) = tp + lay->res;
	if (lay->rseq)
		fill_rseq(tp);
}

/* TLSBLOCK-8.  The bits of the pid are reversed: pids that differ by less than 2^n are about
 * 2^(30-n) ids apart, and any two IDS_OF_PID at least. */
static void ids_begin(void)
{
	uint32_t pid = (uint32_t)getpid(), reversed = 0;

	if (ids.pid == (pid_t)pid)
		return;
	for (int i = 0; i < PID_BITS; i++)
		reversed |= (pid >> i & 1) << (PID_BITS - 1 - i);
	ids.pid = (pid_t)pid;
	ids.first = reversed * IDS_OF_PID;
	ids.n = 0;
}

/* A thread id that no thread has had; 0: there is none. */
static int new_tid(void)
{
	uint32_t n = add_rlx(&ids.n, 1);

	return n < TIDS ? (int)(TID_FIRST + (ids.first + n) % TIDS) : 0;
}

struct tlsblock *tlsblock_new(void)
{
	struct tls_state before = state_now(), now;
	int tid = new_tid();
	char *tp = tid ? lay->allocate(NULL) : NULL;

	if (!tp)
		return NULL;
	fill_thread(tp, tid);
	list_add(tls_at(tp, lay->list));
	now = state_now();
	if (unlikely(!same_state(&before, &now))) /* a module came before the block was listed */
		tlsblock_reset((struct tlsblock *)(void *)tp);
	return (struct tlsblock *)(void *)tp;
}

void tlsblock_free(struct tlsblock *b)
{
	struct tls_value **tables = tls_at(b, lay->specific);

	list_remove(tls_at(b, lay->list));
	for (int i = 1; i < TLS_KEY_TABLES; i++) /* the first one is in the struct */
		free(tables[i]);
	lay->deallocate(b, true);
}

void tlsblock_prepare(struct tlsblock *b, char *stack, size_t bytes)
{
	char *tp = (char *)b;
	ptrdiff_t from = lay->robust + TLS_ROBUST_BYTES;

	/* handlers of pthread_cleanup_push that the former green thread did not leave */
	zero(tp + from, (size_t)(lay->cancel - from));
	write_int(tp, lay->cancel, CANCEL_DISABLED);
	write_word(tp, lay->stack, stack);
	write_word(tp, lay->stack + (ptrdiff_t)sizeof(void *), (void *)bytes);
	write_int(tp, lay->errno_at, 0);
	write_int(tp, lay->h_errno_at, 0);
}

void tlsblock_begin_cache(void)
{
	void *volatile block = malloc(1);

	free(block);
}

/* --- the first and the last code in a block --- */

void tlsblock_first(void)
{
	lay->ctype_init(); /* the tables of the process's present locale */
}

/* Runs the destructors of one table of keys.  Returns true if there was a value. */
static bool end_keys(struct tls_value *values, const struct tls_key *keys)
{
	bool any = false;

	for (int i = 0; i < TLS_KEYS_PER_TABLE; i++) {
		void *value = values[i].data;

		if (!value)
			continue;
		any = true;
		values[i].data = NULL;
		if (values[i].seq == ld_rlx(&keys[i].seq) && keys[i].destroy)
			keys[i].destroy(value);
	}
	return any;
}

/* A round of destructors.  Returns true if there may be new values. */
static bool end_all_keys(char *tp)
{
	struct tls_value **tables = tls_at(tp, lay->specific);
	bool any = false;

	for (int i = 0; i < TLS_KEY_TABLES; i++)
		if (tables[i])
			any |= end_keys(tables[i], lay->keys + (size_t)i * TLS_KEYS_PER_TABLE);
	return any;
}

/* Values that destructors have set again and again. */
static void drop_values(char *tp)
{
	struct tls_value **tables = tls_at(tp, lay->specific);

	for (int i = 0; i < TLS_KEY_TABLES; i++)
		for (int k = 0; tables[i] && k < TLS_KEYS_PER_TABLE; k++)
			tables[i][k].data = NULL;
}

static noinline void end_used_keys(char *tp)
{
	for (int i = 0; i < KEY_ROUNDS && end_all_keys(tp); i++)
		;
	drop_values(tp);
	lay->call_dtors(); /* of variables that the destructors have used first */
}

static bool *keys_used(char *tp)
{
	return tls_at(tp, lay->specific + TLS_KEY_TABLES * (ptrdiff_t)sizeof(void *));
}

/* Resets the locale and the message of dlerror, in the block that is loaded. */
static noinline void reset_libc(void)
{
	if (uselocale((locale_t)0) != LC_GLOBAL_LOCALE)
		uselocale(LC_GLOBAL_LOCALE);
	if (dlerror()) /* the first call returns the message, the second one frees it */
		dlerror();
}

/* A robust mutex that the ending thread tid holds: its next locker gets EOWNERDEAD. */
static void owner_died(uint32_t *word, uint32_t tid)
{
	uint32_t now = ld_rlx(word);

	if ((now & FUTEX_TID_MASK) != tid)
		return;
	while (!cas_rel(word, &now, (now & FUTEX_WAITERS) | FUTEX_OWNER_DIED)) /* ORD(lock) */
		;
	if (now & FUTEX_WAITERS) /* libc waits for a robust mutex as for a shared one */
		syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* What the kernel does at the end of an OS thread, whose list it knows.  Bit 0 of an entry tells a
 * mutex with priority inheritance. */
static noinline void end_robust(char *tp)
{
	const struct robust_list_head *head = tls_at(tp, lay->robust);
	uintptr_t entry = (uintptr_t)head->list.next & ~(uintptr_t)1;
	uint32_t tid = *(uint32_t *)tls_at(tp, lay->tid);

	for (int i = 0; entry != (uintptr_t)&head->list && i < ROBUST_LIST_LIMIT; i++) {
		uintptr_t next = *(uintptr_t *)entry & ~(uintptr_t)1;

		owner_died((uint32_t *)(entry + (uintptr_t)head->futex_offset), tid);
		entry = next;
	}
	empty_robust(tp);
}

void tlsblock_last(void)
{
	char *tp = arch_tp(); /* the green thread may move, its block does not */
	bool *used = keys_used(tp);

	lay->call_dtors();
	if (unlikely(*used)) {
		end_used_keys(tp);
		*used = false;
	}
	if (unlikely(*(char **)tls_at(tp, lay->robust) != tp + lay->robust))
		end_robust(tp);
	reset_libc();
}

/* The entry of a module in the table of a block's modules. */
struct tls_entry {
	void *at, *to_free;
};

static noinline void free_entry(struct tls_entry *e)
{
	free(e->to_free);
	*e = (struct tls_entry){ UNALLOCATED, NULL };
}

/* The blocks of modules without a fixed offset. */
static inline void free_dynamic(struct tlsblock *b)
{
	struct tls_entry *table = *(void **)tls_at(b, lay->dtv);
	size_t n = min_of(ld_rlx(lay->modules), (size_t)table[-1].at);

	for (size_t i = 1; i <= n; i++)
		if (unlikely(table[i].to_free != NULL))
			free_entry(&table[i]);
}

/* images_now, after waiting for memory. */
static noinline const struct tls_images *images_wait(void)
{
	const struct tls_images *all;

	while (!(all = images_now()))
		os_nap(MS);
	return all;
}

void tlsblock_reset(struct tlsblock *b)
{
	const struct tls_images *all = images_now();

	if (unlikely(!all))
		all = images_wait();
	free_dynamic(b);
	for (uint32_t i = 0; i < all->n; i++) {
		const struct tls_image *v = &all->images[i];
		char *to = tls_at(b, v->at);

		if (v->image_bytes)
			memcpy(to, v->image, v->image_bytes);
		zero(to + v->image_bytes, v->bytes - v->image_bytes);
	}
}

/* Drops the destructors of C++ thread-locals. */
static void drop_dtors(char *tp)
{
	struct tls_dtor **list = tls_at(tp, lay->dtors), *d;

	while ((d = *list) != NULL) {
		*list = d->next;
		free(d);
	}
}

bool tlsblock_renew(struct tlsblock *b)
{
	char *tp = (char *)b, *own = arch_tp();
	int tid = lay->has_dtors ? new_tid() : 0;

	if (!tid)
		return false;
	write_int(tp, lay->tid, tid);
	fill_robust(tp);
	drop_dtors(tp);
	drop_values(tp);
	*keys_used(tp) = false;
	tlsblock_load(b, getm(), own);
	reset_libc();
	arch_set_tp(own);
	tlsblock_reset(b);
	return true;
}

/* --- signals: TLSBLOCK-4 --- */

/* What the system call takes.  sigaction(2) of glibc refuses the signal. */
struct kernel_action {
	void (*handler)(int sig, siginfo_t *info, void *context);
	unsigned long flags;
#if !defined(__riscv)
	void (*restorer)(void);
#endif
	uint64_t mask;
};

static struct kernel_action glibcs; /* (c) while the handler is installed */

static int set_action(const struct kernel_action *to, struct kernel_action *was)
{
	return (int)syscall(SYS_rt_sigaction, SIG_SETXID, to, was, sizeof(to->mask));
}

static void (*on_note)(void); /* (c) */

void tlsblock_on_note(void (*fn)(void))
{
	on_note = fn;
}

int tlsblock_note_send(int tid)
{
	siginfo_t info = { .si_signo = SIG_SETXID, .si_code = CODE_NOTE };

	info.si_pid = getpid();
	return (int)syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, SIG_SETXID, &info);
}

static void on_setxid(int sig, siginfo_t *info, void *context)
{
	void *host = gmp__tls_host(), *tp = arch_tp(), *own = host ? host : tp;

	if (own == forked.loaded)
		own = forked.second;
	arch_set_tp(own);
	if (on_note && info->si_code == CODE_NOTE && info->si_pid == getpid())
		on_note();
	else
		glibcs.handler(sig, info, context);
	arch_set_tp(tp);
}

void tlsblock_signals_begin(void)
{
	struct kernel_action now;

	if (set_action(NULL, &now) || now.handler == on_setxid)
		return;
	glibcs = now;
	now.handler = on_setxid;
	set_action(&now, NULL);
}

void tlsblock_signals_end(void)
{
	struct kernel_action now;

	if (!forked.second && !set_action(NULL, &now) && now.handler == on_setxid)
		set_action(&glibcs, NULL);
}

/* --- forks --- */

/*
 * In a child that is alone with b: the list has the child's blocks only.  libc's fork empties it,
 * and enters b among the threads with a stack to reuse.  In a child without libc's fork another
 * thread of the parent may have held the lock, or have been at work on the list.
 */
static void list_renew(struct tlsblock *b)
{
	struct tls_list *l = tls_at(b, lay->list);

	*lay->lock = 0;
	list_remove(l);
	lay->threads->next = lay->threads->prev = lay->threads;
	list_add(l);
	if (forked.spare)
		list_add(tls_at(forked.spare, lay->list));
}

void tlsblock_forked(void)
{
	char *host = gmp__tls_host();

	ids_begin();
	forked.loaded = forked.second = NULL;
	if (host)
		forked.orphan = arch_tp();
	if (forked.orphan == arch_tp())
		list_renew(forked.orphan);
	if (!host)
		return;
	/* the kernel would write to an area that glibc may give to another thread */
	if (lay->rseq)
		syscall(SYS_rseq, host + lay->rseq, lay->rseq_bytes, RSEQ_FLAG_UNREGISTER,
			RSEQ_SIGNATURE);
	gmp__forget_host();
}

void tlsblock_keep(struct tlsblock *b)
{
	ids_begin();
	write_int((char *)b, lay->tid, new_tid());
}

struct tlsblock *tlsblock_second(struct tlsblock *b)
{
	if (forked.loaded == b)
		return forked.second;
	struct tlsblock *second = forked.spare ? forked.spare : tlsblock_new();

	forked.spare = NULL;
	if (!second)
		return NULL;
	write_int((char *)second, lay->tid, getpid()); /* of the process's first thread */
	forked.second = second;
	forked.loaded = b;
	tlsblock_signals_begin();
	return second;
}

void tlsblock_prepare_second(void)
{
	struct tlsblock *none = NULL, *b = ld_rlx(&forked.spare) ? NULL : tlsblock_new();

	if (b && !cas_rlx(&forked.spare, &none, b))
		tlsblock_free(b);
}

void tlsblock_own(struct tlsblock *b, char *stack, size_t bytes)
{
	char *tp = (char *)b;

	forked.loaded = forked.second = NULL;
	tlsblock_prepare(b, stack, bytes);
	write_int(tp, lay->tid, (int)syscall(SYS_set_tid_address, tls_at(tp, lay->tid)));
	syscall(SYS_set_robust_list, tp + lay->robust, TLS_ROBUST_BYTES);
	if (lay->cache) /* TLSBLOCK-6: otherwise the next load would lose it */
		write_word(tp, lay->cache, *(void **)tls_at(arch_tp(), lay->cache));
}

/* --- probe --- */

static struct {
	pthread_mutex_t lock;
	bool done;
	int err;
	const char *why;
} probe = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool handles_setxid(void)
{
	struct kernel_action now;

	return !set_action(NULL, &now) && (uintptr_t)now.handler > (uintptr_t)SIG_IGN;
}

static void probe_locked(void)
{
	ids_begin();
	gmp__tls_offsets(&gmp__tlsblock_at.m, &gmp__tlsblock_at.host);
	probe.err = tlslayout_probe(&probe.why);
	gmp__tlsblock_at.cache = lay->cache;
	gmp__tlsblock_at.no_cache = lay->no_cache;
	if (!probe.err && !handles_setxid()) {
		probe.err = -ENOTSUP;
		probe.why = "glibc has no handler for its signal 33";
	}
	if (!probe.err && !images_now())
		probe.err = -EAGAIN;
	probe.done = probe.err != -EAGAIN;
}

int tlsblock_probe(const char **why)
{
	pthread_mutex_lock(&probe.lock);
	if (!probe.done)
		probe_locked();
	int err = probe.err;

	*why = probe.why;
	pthread_mutex_unlock(&probe.lock);
	return err;
}
