/* SPDX-License-Identifier: MIT */
/* Declarations of FreeBSD's <pthread_np.h> that os_*_bsd.c uses, for tests/kqueue/bsd.c. */
#ifndef TESTS_KQUEUE_PTHREAD_NP_H
#define TESTS_KQUEUE_PTHREAD_NP_H

#include <pthread.h>

int pthread_getthreadid_np(void);
int pthread_main_np(void);
int pthread_attr_get_np(pthread_t thread, pthread_attr_t *attr);

#endif
