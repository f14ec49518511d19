/* SPDX-License-Identifier: MIT */
/* Threads of the program that are alive, and the program as a whole: alive.c. */
#ifndef GMP_POSIX_ALIVE_H
#define GMP_POSIX_ALIVE_H

#include "posix/thread/registry.h"

/* True if main is a green thread, also in the child of a fork.  The second: it is one now. */
bool program_is_whole(void);
void program_begin_whole(void);

/* A thread is about to exist; the calling one has ended its work: PROGRAM-1.  t: its record; NULL:
 * an OS thread.  Does not return for main, nor for the last thread. */
void program_thread_new(void);
void program_thread_left(struct thread *t);
/* The same of main, whose function returns into exit, and of the first thread of a child. */
void program_main_left(struct thread *t) __attribute__((noreturn));
/* One permit when the thread of main has ended by pthread_exit. */
extern gmp_sem main_ended;

/* In the child of a fork, whose first thread has the record t, or NULL; and after it has become a
 * green thread. */
void program_forked(struct thread *t);
void program_adopted(void);

/* OS threads are counted. */
bool alive_counts(void);
/* libc's pthread_create for a thread that counts (PROGRAM-1). */
int alive_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg,
		 bool c11);
/* The caller is an OS thread that PROGRAM-1 counts already: it leaves when it ends. */
void alive_count_self(void);

#endif
