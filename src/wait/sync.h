/* SPDX-License-Identifier: MIT */
/*
 * Owner tokens: 32-bit names of the threads that own locks, for reports and deadlock checks.
 *
 *   0               no owner
 *   TOKEN_EXTERNAL  an external thread, any of them: its kernel id would cost a system call
 *   otherwise       index of the g struct + 1
 */
#ifndef GMP_SYNC_H
#define GMP_SYNC_H

#include "base/os.h"
#include "g.h"
#include "types.h"

enum { TOKEN_EXTERNAL = 1u << 31 };

/* The token of the caller. */
static inline uint32_t gmp__self_token(void)
{
	struct m *m = getm();

	return likely(m != NULL) ? m->curg->token : TOKEN_EXTERNAL;
}

/* The green thread of a token; NULL if there is no owner or it is an external thread. */
static inline struct g *gmp__token_g(uint32_t token)
{
	return token == 0 || token & TOKEN_EXTERNAL ? NULL : g_at(token - 1);
}

#endif
