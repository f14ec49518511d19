/* SPDX-License-Identifier: MIT */
/*
 * Wait protocol between a waiter and a waker.
 */
#ifdef MUTANT_NO_CLAIM /* the claim is a plain store */
#endif
