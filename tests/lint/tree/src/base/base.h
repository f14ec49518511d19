/* SPDX-License-Identifier: MIT */
/* Sizes and hints for the compiler. */
#ifndef GMP_BASE_H
#define GMP_BASE_H

#define CACHE_LINE 64

#endif
