/* SPDX-License-Identifier: MIT */
/*
 * Declarations of <sys/event.h> for the emulation of kqueue (tests/kqueue/kqueue.c).
 *
 * Names and meanings are those of FreeBSD's manual; the layout of struct kevent has the size of
 * FreeBSD's, so that frames and buffers are as large as there.
 */
#ifndef TESTS_KQUEUE_SYS_EVENT_H
#define TESTS_KQUEUE_SYS_EVENT_H

#include <stdint.h>
#include <time.h>

struct kevent {
	uintptr_t ident;
	short filter;
	unsigned short flags;
	unsigned fflags;
	int64_t data;
	void *udata;
	uint64_t ext[4];
};

enum { EVFILT_READ = -1, EVFILT_WRITE = -2, EVFILT_USER = -11 };

enum {
	EV_ADD = 0x0001,
	EV_DELETE = 0x0002,
	EV_ENABLE = 0x0004,
	EV_DISABLE = 0x0008,
	EV_ONESHOT = 0x0010,
	EV_CLEAR = 0x0020,
	EV_RECEIPT = 0x0040,
	EV_DISPATCH = 0x0080,
	EV_ERROR = 0x4000,
	EV_EOF = 0x8000,
};

enum { NOTE_LOWAT = 0x0001, NOTE_FFNOP = 0, NOTE_TRIGGER = 0x01000000 };

#define EV_SET(e, i, filt, fl, ffl, d, u)                                                          \
	(*(e) = (struct kevent){ .ident = (i),                                                     \
				 .filter = (filt),                                                 \
				 .flags = (fl),                                                    \
				 .fflags = (ffl),                                                  \
				 .data = (d),                                                      \
				 .udata = (u) })

int kqueue(void);
int kevent(int fd, const struct kevent *changes, int nchanges, struct kevent *events, int nevents,
	   const struct timespec *timeout);

#endif
