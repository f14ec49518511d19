/* SPDX-License-Identifier: MIT */
/* Who holds a lock?  A token of 32 bits: a green thread's index + 1; the top bit alone for any
 * external thread (its kernel id would cost a system call); 0: nobody. */
#ifndef GMP_SYNC_H
#define GMP_SYNC_H

#include "base/os.h"
#include "g.h"
#include "types.h"

enum { TOKEN_FOREIGN = 1u << 31 };

static inline uint32_t gmp__self_token(void)
{
	struct m *m = getm();

	return likely(m != NULL) ? m->curg->token : TOKEN_FOREIGN;
}

/* The green thread of a token; NULL for none, or an external thread. */
static inline struct g *gmp__token_g(uint32_t token)
{
	return token == 0 || token & TOKEN_FOREIGN ? NULL : g_at(token - 1);
}

#endif
