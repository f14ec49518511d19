/* SPDX-License-Identifier: MIT */
/* Findings of GMP_DEBUG=check: file descriptors that are released or closed too late. */
#ifndef GMP_LATE_H
#define GMP_LATE_H

enum late_kind {
	LATE_RELEASE, /* gmp_fd_release by a thread that has lost the fd to another connection */
	LATE_CLOSE,   /* gmp_close by such a thread */
	LATE_UNKNOWN, /* gmp_close of an fd whose file gmp does not know */
};

/* With GMP_DEBUG=check, write a finding to stderr.  No locks held. */
void late_report(int fd, enum late_kind kind);

#endif
