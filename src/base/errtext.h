/* SPDX-License-Identifier: MIT */
/* Texts of errors, for messages. */
#ifndef GMP_ERRTEXT_H
#define GMP_ERRTEXT_H

/* The text of a positive errno value. May be called in a signal handler. */
const char *errtext(int err);

#endif
