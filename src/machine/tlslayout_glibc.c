/* SPDX-License-Identifier: MIT */
/*
 * Probe of glibc's thread struct, for glibc 2.34 and later.
 *
 *   from _thread_db_*            size, dtv, list, tid, cancel, specific; slots, map_offset, the
 *                                lists of threads
 *   from a function or symbol    self, res, resp, rseq, errno_at, h_errno_at
 *   searched in a real thread    stack (a mapping that the probe made), robust (a list that
 *                                contains nothing but its head; compared with what the kernel has,
 *                                which qemu-user does not say)
 *   by a comparison              detached: what changes when a thread detaches itself.  Since glibc
 *                                2.43 it is an int, before that it was a pointer to the thread;
 *                                dtors: the variable of libc that changes when a destructor is
 *                                added.  If it is not found, blocks cannot be renewed.  libc ends
 *                                the process if it has no memory for a destructor, so memory is
 *                                tried first
 *   by a comparison and a trial  cache: of the words of libc that the first malloc of a thread
 *                                changes, that with whose copy the probe gets the block which the
 *                                thread has freed last.  It need not be found.  Before that malloc
 *                                the word is no_cache: NULL, or since glibc 2.43 a variable of libc
 *   by its place, then by trial  lock: it lies behind three list heads.  The probe takes it, makes
 *                                another thread need it, and sees that this thread sleeps on it
 *
 * Each of them, except detached and stack, is also compared with the values of a real
 * thread.
 */
#include "machine/tlslayout.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <linux/rseq.h>
#include <netdb.h>
#include <pthread.h>
#include <resolv.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/os.h"
#include "base/san.h"

#undef p_type /* a macro of resolv.h */

/*
 * RSEQ_BYTES: the least that the kernel registers.
 * HWCAP2_FSGSBASE: the kernel lets programs write the thread pointer.  PROBE_STACK: of the thread
 * that is read, in a mapping of its own, beside the thread-locals of all modules.  LOCK_POLLS: naps
 * of 50 us until the thread that needs the lock must sleep on it: a second.  MARK_BYTES: more than
 * the fields between the values of keys and the stack take.
 */
enum {
	HWCAP2_FSGSBASE = 2,
	PROBE_STACK = 256 * 1024,
	LOCK_POLLS = 20000,
	MARK_BYTES = 1024,
	RSEQ_BYTES = 32,
	PROBE_BYTES = 504, /* a size that malloc caches */
	HEAP_WORDS = 4, /* of libc, that the first malloc of a thread changes: at most 2 so far */
	/* more by 5 than a thread's cache holds, from which calloc takes none before glibc 2.41 */
	SPARE_BLOCKS = 12,
	TCB_THREADS = 24, /* int: other threads exist */
};

/* Two ints: the first of an area for rseq, as long as it is not registered. */
#define RSEQ_NOT_REGISTERED ((uintptr_t)(uint32_t)RSEQ_CPU_ID_REGISTRATION_FAILED << 32)

struct tls_layout gmp__tls_layout;

static struct tls_layout *const lay = &gmp__tls_layout;

static void *symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

/* The offset in its struct of a field that libthread_db reads.  bits: its size. */
static bool debugger_field(const char *name, uint32_t bits, size_t *at)
{
	const uint32_t *found = symbol(name);

	if (!found || found[0] != bits)
		return false;
	*at = found[2];
	return true;
}

/* The same from the thread pointer, for a field of the thread struct. */
static bool thread_field(const char *name, uint32_t bits, ptrdiff_t *at)
{
	size_t in_struct;
	bool found = debugger_field(name, bits, &in_struct);

	if (found)
		*at = lay->self + (ptrdiff_t)in_struct;
	return found;
}

/* The fields of a pair of words, of which all lists and tables here consist. */
static bool debugger_pair(const char *first, const char *second)
{
	size_t a, b;

	return debugger_field(first, 64, &a) && a == 0 && debugger_field(second, 64, &b) && b == 8;
}

static const char *find_functions(void)
{
	void *found[] = { symbol("_dl_allocate_tls"), symbol("_dl_deallocate_tls"),
			  symbol("__ctype_init"), symbol("__call_tls_dtors"),
			  symbol("__pthread_keys") };

	if (!found[0] && !getauxval(AT_BASE)) /* the kernel has loaded no dynamic linker */
		return "the program is linked statically";
	for (size_t i = 0; i < countof(found); i++)
		if (!found[i])
			return "glibc does not export _dl_allocate_tls, _dl_deallocate_tls, "
			       "__ctype_init, __call_tls_dtors or __pthread_keys";
	memcpy(&lay->allocate, &found[0], sizeof(void *));
	memcpy(&lay->deallocate, &found[1], sizeof(void *));
	memcpy(&lay->ctype_init, &found[2], sizeof(void *));
	memcpy(&lay->call_dtors, &found[3], sizeof(void *));
	lay->keys = found[4];
	return NULL;
}

static const char *find_fields(void)
{
	const uint32_t *size = symbol("_thread_db_sizeof_pthread");
	ptrdiff_t report;

	lay->self = (char *)pthread_self() - (char *)arch_tp();
	if (!size || !thread_field("_thread_db_pthread_list", 128, &lay->list) ||
	    !thread_field("_thread_db_pthread_tid", 32, &lay->tid) ||
	    !thread_field("_thread_db_pthread_cancelhandling", 32, &lay->cancel) ||
	    !thread_field("_thread_db_pthread_dtvp", 64, &lay->dtv) ||
	    !thread_field("_thread_db_pthread_specific", TLS_KEY_TABLES * 64, &lay->specific) ||
	    !thread_field("_thread_db_pthread_report_events", 8, &report) ||
	    report != lay->specific + TLS_KEY_TABLES * (ptrdiff_t)sizeof(void *) + 1)
		return "glibc's description of its thread struct is another one";
	lay->size = *size;
	if (!debugger_pair("_thread_db_pthread_key_struct_seq",
			   "_thread_db_pthread_key_struct_destr") ||
	    !debugger_pair("_thread_db_pthread_key_data_seq", "_thread_db_pthread_key_data_data") ||
	    !debugger_pair("_thread_db_dtv_slotinfo_gen", "_thread_db_dtv_slotinfo_map") ||
	    !debugger_pair("_thread_db_dtv_slotinfo_list_len", "_thread_db_dtv_slotinfo_list_next"))
		return "glibc's tables of keys or of modules have another form";
	return NULL;
}

/* The fields of the dynamic linker that a debugger reads, and their neighbours. */
static const char *find_linker(void)
{
	char *linker = symbol("_rtld_global");
	size_t slots, used, user;

	if (!linker ||
	    !debugger_field("_thread_db_rtld_global__dl_tls_dtv_slotinfo_list", 64, &slots) ||
	    !debugger_field("_thread_db_rtld_global__dl_stack_used", 128, &used) ||
	    !debugger_field("_thread_db_rtld_global__dl_stack_user", 128, &user) ||
	    !debugger_field("_thread_db_link_map_l_tls_offset", 64, &lay->map_offset) ||
	    user != used + sizeof(struct tls_list))
		return "the state of the dynamic linker is described in another way";
	lay->slots = (void *)(linker + slots);
	lay->modules = (void *)(linker + slots - sizeof(size_t));
	lay->static_used = (void *)(linker + slots + 2 * sizeof(size_t));
	lay->threads = (void *)(linker + user);
	/* behind it: the list of cached stacks, their size, and a list operation under way */
	lay->lock = (void *)(linker + user + 2 * sizeof(struct tls_list) + 2 * sizeof(size_t));

	const struct tls_list *cached = lay->threads + 1;
	const size_t *under_way = (const size_t *)(cached + 1) + 1;

	for (const struct tls_list *l = lay->threads - 1; l <= cached; l++)
		if (!l->next || l->next->prev != l || l->prev->next != l)
			return "glibc's lists of threads are elsewhere";
	if (*under_way || (unsigned)ld_rlx(lay->lock) > 2)
		return "the lock of glibc's lists of threads is elsewhere";
	return NULL;
}

/* --- a real thread --- */

static struct {
	char *stack;  /* its mapping */
	size_t bytes; /* of that */
	const char *wrong;
	void *tp;
	bool is_detached;              /* the mark has been found */
	bool no_memory;                /* it could not be read for that reason */
	void *freed;                   /* the block of PROBE_BYTES that the thread has freed last */
	ptrdiff_t changed[HEAP_WORDS]; /* by its first malloc */
	void *former[HEAP_WORDS];      /* what the words were before it */
	int nchanged;
	sem_t was_read, end; /* it has been read; it may end */
	sem_t begin;         /* of the thread that needs the lock */
	pthread_key_t key;
} real;

struct span {
	const char *from;
	size_t bytes;
};

static void wait_for(sem_t *s)
{
	while (sem_wait(s)) /* a signal ends it */
		;
}

static void key_ended(void *value)
{
	(void)value;
}

/* *at: the only word of the calling thread's struct, from `from` on, that has this value. */
static bool find_word(ptrdiff_t from, uintptr_t value, ptrdiff_t *at)
{
	ptrdiff_t end = lay->self + (ptrdiff_t)lay->size - (ptrdiff_t)sizeof(value);
	bool found = false;

	for (ptrdiff_t i = from; i <= end; i += (ptrdiff_t)sizeof(value)) {
		if (*(uintptr_t *)tls_at(arch_tp(), i) != value)
			continue;
		if (found)
			return false;
		found = true;
		*at = i;
	}
	return found;
}

static const char *look_at_header(char *tp)
{
	if ((char *)pthread_self() != tp + lay->self)
		return "the thread struct is not at the same place in each thread";
#if defined(__x86_64__)
	if (*(void **)tp != tp || *(void **)(tp + TLS_TCB_SELF) != tp || lay->self != 0)
		return "the thread pointer is not the address of glibc's thread struct";
	if (*(int *)(tp + TCB_THREADS) != 1)
		return "the flag for several threads is elsewhere";
#endif
	if (*(int *)(tp + lay->tid) != os_thread_id())
		return "the thread id is elsewhere";
	const struct tls_list *l = (void *)(tp + lay->list);

	return l->next->prev == l && l->prev->next == l ? NULL : "the list links are elsewhere";
}

/* An empty list: its head and the word before it have the address of the head. */
static bool is_empty_list(const char *head)
{
	return *(const void *const *)head == head &&
	       *(const void *const *)(head - sizeof(void *)) == head;
}

static const char *look_at_robust(char *tp)
{
	const ptrdiff_t word = sizeof(void *);
	char *kernels = NULL;
	size_t bytes = 0;

	lay->robust = (lay->tid & -word) + 2 * word;
	while (lay->robust <= lay->cancel - TLS_ROBUST_BYTES && !is_empty_list(tp + lay->robust))
		lay->robust += word;
	if (lay->robust > lay->cancel - TLS_ROBUST_BYTES)
		return "the list of robust mutexes is elsewhere";
	if (syscall(SYS_get_robust_list, 0, &kernels, &bytes))
		return NULL; /* not to be compared: qemu-user, or a filter of system calls */
	return kernels == tp + lay->robust && bytes == TLS_ROBUST_BYTES
		       ? NULL
		       : "the kernel has another list of robust mutexes";
}

/* The first module with thread-locals that the calling thread has: is its block in the table? */
static int check_table(struct dl_phdr_info *info, size_t size, void *found)
{
	void *const(*table)[2] = *(void *(**)[2])tls_at(arch_tp(), lay->dtv);

	(void)size;
	if (!info->dlpi_tls_modid || !info->dlpi_tls_data)
		return 0;
	*(bool *)found = table[info->dlpi_tls_modid][0] == info->dlpi_tls_data;
	return 1;
}

static const char *look_at_table(char *tp)
{
	bool found = false;

	(void)tp;
	dl_iterate_phdr(check_table, &found);
	return found ? NULL : "the table of the blocks of modules is elsewhere";
}

static const char *look_at_keys(char *tp)
{
	size_t tables = TLS_KEY_TABLES * sizeof(void *);
	void **specific = (void **)(tp + lay->specific);
	const char *used = (const char *)specific + tables;
	const char *first = (const char *)specific - TLS_KEYS_PER_TABLE * sizeof(struct tls_value);

	if (specific[0] != first || *used != 0)
		return "the values of pthread keys are elsewhere";
	if (pthread_setspecific(real.key, tp) || *used != 1 ||
	    lay->keys[real.key].destroy != key_ended)
		return "the table of pthread keys is elsewhere";
	return NULL;
}

static const char *look_at_cancel(char *tp)
{
	int *state = (int *)(tp + lay->cancel), before = *state, old;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	return before == 0 && *state == 1 ? NULL : "the state of cancellation is elsewhere";
}

static const char *look_at_stack(char *tp)
{
	uintptr_t *pair;

	if (!find_word(lay->specific, (uintptr_t)real.stack, &lay->stack))
		return "the bounds of the stack are not found";
	pair = (uintptr_t *)(tp + lay->stack);
	return pair[1] == real.bytes && pair[2] == 0 ? NULL : "the size of the stack is elsewhere";
}

static const char *look_at_variables(char *tp)
{
	const ptrdiff_t *rseq = symbol("__rseq_offset");
	const unsigned *bytes = symbol("__rseq_size");
	void **resp = symbol("__resp");
	char *res = (char *)__res_state();

	lay->errno_at = (char *)__errno_location() - tp;
	lay->h_errno_at = (char *)__h_errno_location() - tp;
	lay->res = res - tp;
	if (lay->res < lay->self || lay->res >= lay->self + (ptrdiff_t)lay->size)
		return "the state of the resolver is elsewhere";
	if (!resp || *resp != res)
		return "glibc does not export __resp";
	lay->resp = (char *)resp - tp;
	lay->rseq = rseq ? *rseq : 0;
	lay->rseq_bytes = max_of(bytes ? *bytes : 0u, (unsigned)RSEQ_BYTES);
	if (!rseq)
		return NULL;
	/* glibc before 2.40 does not register it on riscv64, says 0, and yet reads it when a thread
	 * is made: search for "not registered" */
	if (lay->rseq == 0 &&
	    (!bytes || *bytes || !find_word(lay->specific, RSEQ_NOT_REGISTERED, &lay->rseq)))
		return "the area for rseq is elsewhere";
	/* in the struct, or among the variables */
	if (TLS_VARIABLES_BELOW ? lay->rseq >= (ptrdiff_t)lay->size : lay->rseq < lay->self)
		return "the area for rseq is elsewhere";
	return NULL;
}

/* libc's thread-locals of the calling thread. */
static int find_libcs(struct dl_phdr_info *info, size_t size, void *found)
{
	struct span *libcs = found;
	const char *error = (char *)arch_tp() + lay->errno_at;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const char *from = info->dlpi_tls_data;
		size_t bytes = info->dlpi_phdr[i].p_memsz;

		if (info->dlpi_phdr[i].p_type != PT_TLS || !from || error < from ||
		    error >= from + bytes)
			continue;
		libcs->from = from;
		libcs->bytes = bytes;
		return 1;
	}
	return 0;
}

/* Is it the list, whose first entry is for this object and whose second is the former first? */
static bool is_dtors(const char *at, const void *object, const void *former)
{
	const struct tls_dtor *first = *(struct tls_dtor *const *)at;

	return first && first != former && first->object == object && first->next == former;
}

/* Leaves blocks of this size in malloc's lists, so that the thread's next two allocations of it
 * succeed. */
static bool spare_blocks(size_t bytes)
{
	void *volatile blocks[SPARE_BLOCKS];
	bool all = true;

	for (int i = 0; i < SPARE_BLOCKS; i++) {
		blocks[i] = malloc(bytes);
		all = all && blocks[i];
	}
	for (int i = 0; i < SPARE_BLOCKS; i++)
		free(blocks[i]);
	return all;
}

/* The only word that changes when a destructor is added.  Before that one is added, so that libc
 * has noted the module. */
static void look_at_dtors(char *tp)
{
	static char first, second;
	int (*add)(void (*)(void *), void *, void *);
	struct span libcs = { NULL, 0 };
	char before[MARK_BYTES];
	const char *changed = NULL;
	void *found = symbol("__cxa_thread_atexit_impl");

	dl_iterate_phdr(find_libcs, &libcs);
	if (!found || !libcs.from || libcs.bytes > sizeof(before))
		return;
	memcpy(&add, &found, sizeof(add));
	real.no_memory = !spare_blocks(sizeof(struct tls_dtor));
	if (real.no_memory || add(key_ended, &first, &real))
		return;
	memcpy(before, libcs.from, libcs.bytes);
	if (add(key_ended, &second, &real))
		return;
	for (size_t i = 0; i + sizeof(void *) <= libcs.bytes; i += sizeof(void *)) {
		if (memcmp(before + i, libcs.from + i, sizeof(void *)) == 0)
			continue;
		if (changed)
			return;
		changed = libcs.from + i;
	}
	if (!changed)
		return;
	lay->dtors = changed - tp;
	lay->has_dtors = is_dtors(changed, &second, *(void **)(before + (changed - libcs.from)));
}

static int contains(struct dl_phdr_info *info, size_t size, void *address)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD &&
		    (uintptr_t)address - info->dlpi_addr - info->dlpi_phdr[i].p_vaddr <
			    info->dlpi_phdr[i].p_memsz)
			return 1;
	return 0;
}

/* NULL, or the address of a variable: not a counter, whose copy another thread must not get. */
static bool is_address(void *value)
{
	return !value || dl_iterate_phdr(contains, value);
}

/* TLSBLOCK-6.  Before the thread has used malloc. */
static void look_at_heap(char *tp)
{
	struct span libcs = { NULL, 0 };
	char *before[MARK_BYTES / sizeof(char *)];

	real.nchanged = 0;
	dl_iterate_phdr(find_libcs, &libcs);
	if (!libcs.from || libcs.bytes > sizeof(before))
		return;
	memcpy(before, libcs.from, libcs.bytes);
	void *volatile block = malloc(PROBE_BYTES);

	free(block);
	real.freed = block;
	for (size_t i = 0; i < libcs.bytes / sizeof(void *); i++) {
		char *const *now = (char *const *)libcs.from + i;

		if (*now == before[i] || !is_address(before[i]) || real.nchanged == HEAP_WORDS)
			continue;
		real.former[real.nchanged] = before[i];
		real.changed[real.nchanged++] = (char *)now - tp;
	}
}

/* Does the calling thread get the block, with this word of the thread, which sleeps? */
static bool gets_freed_block(ptrdiff_t at)
{
	void *volatile *word = tls_at(arch_tp(), at); /* malloc reads it */
	void *own = *word;

	*word = *(void **)tls_at(real.tp, at);
	void *volatile block = malloc(PROBE_BYTES);

	free(block);
	*word = own;
	return block && block == real.freed;
}

/* The words are the pointers to malloc's cache and to its arena. */
static void find_cache(void)
{
	lay->cache = 0;
	for (int i = 0; i < real.nchanged && !lay->cache; i++) {
		if (!gets_freed_block(real.changed[i]))
			continue;
		lay->cache = real.changed[i];
		lay->no_cache = real.former[i];
	}
}

static void *look_at_thread(void *unused)
{
	static const char *(*const looks[])(char *) = {
		look_at_header, look_at_robust, look_at_table,     look_at_keys,
		look_at_cancel, look_at_stack,  look_at_variables,
	};
	char *tp = arch_tp();

	real.tp = tp;
	for (size_t i = 0; i < countof(looks) && !real.wrong; i++)
		real.wrong = looks[i](tp);
	if (!real.wrong) {
		look_at_heap(tp);
		look_at_dtors(tp);
	}
	pthread_setspecific(real.key, NULL);
	sem_post(&real.was_read);
	wait_for(&real.end);
	return unused;
}

/*
 * Between the values of keys and the stack, exactly one field changes when a thread detaches
 * itself: an int, or a pointer from NULL to the thread.
 */
static void look_at_detached(char *tp)
{
	ptrdiff_t from = lay->specific + TLS_KEY_TABLES * (ptrdiff_t)sizeof(void *);
	ptrdiff_t bytes = lay->stack - from;
	char before[MARK_BYTES], *first = NULL, *last = NULL;

	if (bytes <= 0 || bytes > MARK_BYTES)
		return;
	memcpy(before, tp + from, (size_t)bytes);
	pthread_detach(pthread_self());
	for (ptrdiff_t i = 0; i < bytes; i += (ptrdiff_t)sizeof(int)) {
		char *now = tp + from + i;

		if (memcmp(now, before + i, sizeof(int)) == 0)
			continue;
		first = first ? first : now;
		last = now;
	}
	if (!first)
		return;
	char *word = first - ((uintptr_t)first & (sizeof(void *) - 1));

	if (*(char **)word == tp + lay->self && last < word + sizeof(void *)) {
		lay->detached = word - tp;
		real.is_detached = true;
	} else if (first == last && *(int *)first != 0) {
		lay->detached = first - tp;
		lay->detached_state = *(int *)first;
		real.is_detached = true;
	}
}

static void *detach_and_look(void *unused)
{
	look_at_detached(arch_tp());
	sem_post(&real.was_read);
	return unused;
}

/* --- the lock --- */

void tlslayout_lock(int *lock)
{
	int found = 0;

	if (cas_acq(lock, &found, 1)) /* ORD(lock): glibc's other end is the same */
		return;
	while (xchg_acq(lock, 2) != 0) /* ORD(lock) */
		syscall(SYS_futex, lock, FUTEX_WAIT_PRIVATE, 2, NULL);
}

void tlslayout_unlock(int *lock)
{
	if (xchg_seq(lock, 0) == 2) /* ORD(lock) */
		syscall(SYS_futex, lock, FUTEX_WAKE_PRIVATE, 1);
}

static void *do_nothing(void *unused)
{
	return unused;
}

/* Needs the lock, to enter the new thread into the list. */
static void *make_thread(void *unused)
{
	pthread_t t;

	wait_for(&real.begin);
	if (!os_thread_start(&t, do_nothing, NULL, real.bytes, NULL))
		pthread_join(t, NULL);
	return unused;
}

/* With the lock held: the thread whose stack the probe made is in the list. */
static bool is_listed(void)
{
	const struct tls_list *its = tls_at(real.tp, lay->list);

	for (const struct tls_list *l = lay->threads->next; l != lay->threads; l = l->next)
		if (l == its)
			return true;
	return false;
}

/* Takes the lock, and sees a thread sleep on it. */
static int try_lock_of_list(const char **wrong)
{
	pthread_t t;
	bool listed, sleeps = false;

	if (os_thread_start(&t, make_thread, NULL, real.bytes, NULL))
		return -EAGAIN;
	tlslayout_lock(lay->lock);
	listed = is_listed();
	sem_post(&real.begin);
	for (int i = 0; i < LOCK_POLLS && !sleeps; i++) {
		sleeps = ld_rlx(lay->lock) == 2;
		if (!sleeps)
			os_nap(50 * US);
	}
	tlslayout_unlock(lay->lock);
	pthread_join(t, NULL);
	if (!listed)
		*wrong = "a thread is not in glibc's list of threads";
	else if (!sleeps)
		*wrong = "the lock of glibc's lists of threads is elsewhere";
	return 0;
}

/* --- the probe --- */

static int start_on_probe_stack(pthread_t *t)
{
	pthread_attr_t attr;
	int err = pthread_attr_init(&attr);

	if (err)
		return -EAGAIN;
	err = pthread_attr_setstack(&attr, real.stack, real.bytes);
	if (!err)
		err = pthread_create(t, &attr, look_at_thread, NULL);
	pthread_attr_destroy(&attr);
	return err ? -EAGAIN : 0;
}

static int look_at_detached_thread(const char **wrong)
{
	pthread_t t;

	if (pthread_create(&t, NULL, detach_and_look, NULL))
		return -EAGAIN;
	wait_for(&real.was_read);
	if (!real.is_detached)
		*wrong = "the mark of a detached thread is not found";
	return 0;
}

static int look_at_threads(const char **wrong)
{
	pthread_t t;
	int err = start_on_probe_stack(&t);

	if (err)
		return err;
	wait_for(&real.was_read);
	*wrong = real.wrong;
	if (real.no_memory)
		err = -EAGAIN;
	if (!err && !*wrong)
		err = look_at_detached_thread(wrong);
	if (!err && !*wrong)
		err = try_lock_of_list(wrong);
	if (!err && !*wrong)
		find_cache();
	sem_post(&real.end);
	pthread_join(t, NULL);
	return err;
}

/* glibc puts the thread-locals of a new thread on its stack. */
static int add_locals(struct dl_phdr_info *info, size_t size, void *sum)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)sum += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
	return 0;
}

static int look(const char **wrong)
{
	int err;

	real.wrong = NULL;
	real.no_memory = false;
	real.bytes = PROBE_STACK;
	dl_iterate_phdr(add_locals, &real.bytes);
	real.bytes = round_up(real.bytes, PAGE);
	if (pthread_key_create(&real.key, key_ended))
		return -EAGAIN;
	real.stack =
		mmap(NULL, real.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (real.stack == MAP_FAILED) {
		pthread_key_delete(real.key);
		return -EAGAIN;
	}
	sem_init(&real.was_read, 0, 0);
	sem_init(&real.end, 0, 0);
	sem_init(&real.begin, 0, 0);
	err = look_at_threads(wrong);
	sem_destroy(&real.was_read);
	sem_destroy(&real.end);
	sem_destroy(&real.begin);
	munmap(real.stack, real.bytes);
	pthread_key_delete(real.key);
	return err;
}

/* Also if gmp was built without Valgrind's header: Valgrind preloads a library of that name. */
static bool on_valgrind(void)
{
	const char *list = getenv("LD_PRELOAD");

	return RUNNING_ON_VALGRIND || (list && strstr(list, "/vgpreload_"));
}

int tlslayout_probe(const char **why)
{
	const char *wrong = NULL;
	int err = 0;

	if (on_valgrind()) /* it hides FSGSBASE */
		wrong = "Valgrind runs the program";
#if defined(__x86_64__)
	if (!wrong && !(getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE))
		wrong = "the kernel or the CPU lacks FSGSBASE (Linux 5.9)";
#endif
	if (!wrong)
		wrong = find_functions();
	if (!wrong)
		wrong = find_fields();
	if (!wrong)
		wrong = find_linker();
	if (!wrong)
		err = look(&wrong);
	if (wrong)
		*why = wrong;
	return wrong ? -ENOTSUP : err;
}
