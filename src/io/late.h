/* SPDX-License-Identifier: MIT */
/* Findings of GMP_DEBUG=check about descriptors that are released or closed late. */
#ifndef GMP_LATE_H
#define GMP_LATE_H

enum late_kind {
	LATE_RELEASE, /* gmp_fd_release by a thread that has lost the number to another connection */
	LATE_CLOSE,   /* the same by gmp_close */
	LATE_UNKNOWN, /* gmp_close closes a file that gmp does not know */
};

/* Write the finding, with GMP_DEBUG=check; nothing otherwise.  No locks held. */
void late_report(int fd, enum late_kind kind);

#endif
