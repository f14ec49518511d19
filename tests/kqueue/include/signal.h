/* SPDX-License-Identifier: MIT */
/* The system's <signal.h>, and what os_task_bsd.c uses of FreeBSD's, for tests/kqueue/bsd.c. */
#include_next <signal.h>

#ifndef TESTS_KQUEUE_SIGNAL_H
#define TESTS_KQUEUE_SIGNAL_H

#define SI_LWP SI_TKILL

#endif
