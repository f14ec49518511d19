/* SPDX-License-Identifier: MIT */
/*
 * Layout of glibc's private struct of a thread, found and checked at run time.
 *
 * glibc exports what a debugger needs: for each field that libthread_db reads, a symbol
 * _thread_db_<struct>_<field> with the size and the offset.  The other fields are searched in the
 * struct of a real OS thread whose values are known (a stack that the probe made, the list head
 * that the kernel has).  Nothing is assumed from the version.  Whatever does not match ends the
 * probe with a text that names it.
 */
#ifndef GMP_TLSLAYOUT_H
#define GMP_TLSLAYOUT_H

#include "base/base.h"

#if defined(__x86_64__)
/* The struct is at the thread pointer and the variables below it. */
enum { TLS_VARIABLES_BELOW = 1, TLS_LEAST_OFFSET = 1 };
#elif defined(__aarch64__)
/* The struct is below the thread pointer and the variables above it, behind a head of two words. */
enum { TLS_VARIABLES_BELOW = 0, TLS_LEAST_OFFSET = 1 };
#elif defined(__riscv)
/* The same; the head is below, too. */
enum { TLS_VARIABLES_BELOW = 0, TLS_LEAST_OFFSET = 0 };
#endif

/* Offsets are from the thread pointer. */
struct tls_layout {
	ptrdiff_t self;     /* the struct: pthread_self() */
	size_t size;        /* of the struct */
	ptrdiff_t dtv;      /* the table of the thread's blocks, by module */
	ptrdiff_t list;     /* links of the list of threads: next, prev */
	ptrdiff_t tid;      /* int */
	ptrdiff_t robust;   /* the head that the kernel reads; the word before it links backwards */
	ptrdiff_t cancel;   /* int: state and type of cancellation */
	ptrdiff_t specific; /* 32 pointers to tables of 32 values of keys; then the byte `used` */
	ptrdiff_t detached; /* the mark of a detached thread: an int, or a pointer to the thread */
	ptrdiff_t stack;    /* lowest address, size, size of the guard */
	ptrdiff_t res;      /* the resolver's state */
	ptrdiff_t resp;     /* the thread-local __resp: a pointer to that */
	ptrdiff_t rseq;     /* the area that the kernel writes; 0: there is none */
	size_t rseq_bytes;
	ptrdiff_t errno_at, h_errno_at;
	ptrdiff_t cache; /* the pointer to malloc's cache; 0: not found */
	void *no_cache;  /* its value in a thread that has not used malloc */
	bool has_dtors;
	ptrdiff_t dtors; /* if has_dtors: the list of destructors of C++ thread-locals */
	/* The value of the int `detached`; 0: it is the pointer. */
	int detached_state;

	void *(*allocate)(void *tcb);
	void (*deallocate)(void *tcb, bool storage);
	void (*ctype_init)(void);
	void (*call_dtors)(void); /* of C++ thread-locals */
	const struct tls_key {
		uintptr_t seq; /* odd: the key exists */
		void (*destroy)(void *value);
	} * keys;

	/* in the dynamic linker's state */
	const size_t *modules;          /* the highest number of a module with thread-locals */
	const size_t *static_used;      /* bytes of the blocks of all that have a fixed offset */
	struct tls_slots *const *slots; /* which modules there are */
	size_t map_offset;              /* in a module's struct: the offset of its block, at least
	                                   TLS_LEAST_OFFSET if it is fixed */
	struct tls_list *threads;       /* the threads on user-provided stacks */
	int *lock;                      /* of that list; 0 free, 1 held, 2 held with waiters */
};

/* A value of a key; it counts while seq is that of the key. */
struct tls_value {
	uintptr_t seq;
	void *data;
};

struct tls_list {
	struct tls_list *next, *prev;
};

/* A destructor of a C++ thread-local. */
struct tls_dtor {
	void *fn, *object, *map; /* fn is mangled */
	struct tls_dtor *next;
};

struct tls_slots {
	size_t n;
	struct tls_slots *next;
	struct {
		size_t generation; /* changes whenever another module gets the slot */
		const char *map;   /* NULL: free */
	} slot[];
};

enum {
	TLS_KEYS_PER_TABLE = 32,
	TLS_KEY_TABLES = 32,
	TLS_ROBUST_BYTES = 24, /* of the head of the robust mutexes, which the kernel reads */
	TLS_TCB_SELF = 16,     /* of the ABI of x86-64: the word at fs:16 */
};

extern struct tls_layout gmp__tls_layout;

static inline void *tls_at(void *tp, ptrdiff_t offset)
{
	return (char *)tp + offset;
}

/* Fill gmp__tls_layout.  Makes a few OS threads, which have ended when it returns.  Returns 0,
 * -EAGAIN if the system gives no thread or no memory, or -ENOTSUP; *why is then a text. */
int tlslayout_probe(const char **why);

/* The lock of the list of threads.  No other lock may be taken meanwhile. */
void tlslayout_lock(int *lock);
void tlslayout_unlock(int *lock);

#endif
