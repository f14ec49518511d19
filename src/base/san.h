/* SPDX-License-Identifier: MIT */
/*
 * Annotations of stack switches for AddressSanitizer, ThreadSanitizer and Valgrind.
 *
 * Both sanitizers keep records of the current stack. san_leave announces a switch; for
 * AddressSanitizer, san_arrive confirms it on the new stack. Without a sanitizer all functions are
 * empty.
 *
 * Valgrind needs the bounds of each stack once (san_stack_made). The annotations are compiled in if
 * its header is present at build time, and have an effect if Valgrind runs the program.
 */
#ifndef GMP_SAN_H
#define GMP_SAN_H

#include "base/base.h"

#ifdef SAN_ADDRESS
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef SAN_THREAD
#include <inttypes.h>
#include <sanitizer/tsan_interface.h>
#include <stdio.h>
#endif

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define RUNNING_ON_VALGRIND 0
#define VALGRIND_MAKE_MEM_DEFINED(at, bytes) ((void)(at), (void)(bytes))
#define VALGRIND_STACK_REGISTER(lo, hi) ((void)(lo), (void)(hi), 0)
#define VALGRIND_STACK_DEREGISTER(id) ((void)(id))
#endif

/* For functions that leave g0 by a jump: AddressSanitizer poisons memory beside their locals, and
 * would not unpoison it without a return. */
#ifdef SAN_ADDRESS
#define leaves_by_jump __attribute__((no_sanitize("address"), __noinline__))
#else
#define leaves_by_jump
#endif

/* For signal handlers that may interrupt ThreadSanitizer itself (os_sigaction). */
#if defined(SAN_THREAD) && defined(__clang__)
#define unsanitized __attribute__((disable_sanitizer_instrumentation))
#elif defined(SAN_THREAD)
#define unsanitized __attribute__((no_sanitize("thread")))
#else
#define unsanitized
#endif

/* The sanitizers' record of one stack; part of struct g and struct m. */
struct san_stack {
#if defined(SAN_ADDRESS)
	void *fake; /* AddressSanitizer's fake frames, while another stack is in use */
	const void *lo;
	size_t bytes;
#elif defined(SAN_THREAD)
	void *fiber;
#endif
	char unused[0];
};

/* Announce the switch from `from` (NULL: it ends) to `to`; the last call before the switch. */
static inline void san_leave(struct san_stack *from, struct san_stack *to)
{
#if defined(SAN_ADDRESS)
	__sanitizer_start_switch_fiber(from ? &from->fake : NULL, to->lo, to->bytes);
#elif defined(SAN_THREAD)
	__tsan_switch_to_fiber(to->fiber, 0);
#endif
	(void)from, (void)to;
}

/* Confirm the switch to `self`; the first call after it. */
static inline void san_arrive(struct san_stack *self)
{
#if defined(SAN_ADDRESS)
	__sanitizer_finish_switch_fiber(self->fake, NULL, NULL);
#endif
	(void)self;
}

/* Fill s for the stack [lo, lo + bytes) of a new green thread. */
static inline void san_begin(struct san_stack *s, const void *lo, size_t bytes)
{
#if defined(SAN_ADDRESS)
	s->fake = NULL;
	s->lo = lo;
	s->bytes = bytes;
	__asan_unpoison_memory_region(lo, bytes);
#elif defined(SAN_THREAD)
	s->fiber = __tsan_create_fiber(0);
#endif
	(void)s, (void)lo, (void)bytes;
}

#ifdef SAN_THREAD
/* Set the name of the green thread of s in ThreadSanitizer's reports; it copies 63 bytes. */
static inline void san_name(struct san_stack *s, uint64_t id, const char *name)
{
	char text[64];

	snprintf(text, sizeof(text),
		 *name ? "green thread %" PRIu64 " %s" : "green thread %" PRIu64, id, name);
	__tsan_set_fiber_name(s->fiber, text);
}
#endif

/* The green thread of s has ended; called on another stack. */
static inline void san_end(struct san_stack *s)
{
#if defined(SAN_THREAD)
	__tsan_destroy_fiber(s->fiber);
	s->fiber = NULL;
#endif
	(void)s;
}

/* Fill s for the OS thread's own stack, on which the caller runs. */
static inline void san_thread(struct san_stack *s)
{
#if defined(SAN_ADDRESS)
	pthread_attr_t attr;
	void *lo = NULL;

	s->fake = NULL;
	s->bytes = 0;
	if (pthread_getattr_np(pthread_self(), &attr) == 0) {
		pthread_attr_getstack(&attr, &lo, &s->bytes);
		pthread_attr_destroy(&attr);
	}
	s->lo = lo;
#elif defined(SAN_THREAD)
	s->fiber = __tsan_get_current_fiber();
#endif
	(void)s;
}

/* Register [lo, lo + bytes) as a stack. Returns the id for san_stack_gone. */
static inline unsigned san_stack_made(char *lo, size_t bytes)
{
	(void)lo; /* on machines without Valgrind its header ignores the arguments */
	(void)bytes;
	return VALGRIND_STACK_REGISTER(lo, lo + bytes);
}

static inline void san_stack_gone(unsigned id)
{
	(void)id;
	VALGRIND_STACK_DEREGISTER(id);
}

/* Mark memory as initialized that the kernel wrote without a system call that Valgrind sees. */
static inline void san_filled(const void *at, size_t bytes)
{
	(void)at;
	(void)bytes;
	VALGRIND_MAKE_MEM_DEFINED(at, bytes);
}

/* Mark memory as initialized that mcall wrote below the stack pointer of its caller. */
static inline void san_head(const void *at, size_t bytes)
{
	(void)at;
	(void)bytes;
	VALGRIND_MAKE_MEM_DEFINED(at, bytes);
}

/* Return whether the alternate signal stack stays in use after it was disabled, as in Valgrind. */
static inline bool san_keeps_altstack(void)
{
	return RUNNING_ON_VALGRIND;
}

/* Unpoison memory that is about to be unmapped.  Parts that are not poisoned are read only: a write
 * would make the shadow of stacks resident that no G has used, 128 MB for each GB. */
static inline void san_forget(const void *lo, size_t bytes)
{
#if defined(SAN_ADDRESS)
	enum { PART = 256 * 1024 };
	char *at = (char *)(uintptr_t)lo, *end = at + bytes;

	for (size_t n; at < end; at += n) {
		n = (size_t)(end - at) < PART ? (size_t)(end - at) : PART;
		if (__asan_region_is_poisoned(at, n))
			__asan_unpoison_memory_region(at, n);
	}
#endif
	(void)lo, (void)bytes;
}

#endif
