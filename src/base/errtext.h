/* SPDX-License-Identifier: MIT */
/* Texts of errors, for messages. */
#ifndef GMP_ERRTEXT_H
#define GMP_ERRTEXT_H

/* The text of a positive errno value; "another error" if it is not in the table, so messages also
 * have its number. May be called in a signal handler. */
const char *errtext(int err);

#endif
