/* SPDX-License-Identifier: MIT */
/* Thread-local blocks where they cannot be made: machine/tlsblock.h.  Only the probe is called. */
#include <errno.h>

#include "machine/tlsblock.h"

struct tlsblock_offsets gmp__tlsblock_at;

int tlsblock_probe(const char **why)
{
	*why = "it needs glibc, and a build of gmp without AddressSanitizer and "
	       "ThreadSanitizer";
	return -ENOTSUP;
}

void tlsblock_begin_cache(void)
{
}

void tlsblock_signals_begin(void)
{
}

void tlsblock_signals_end(void)
{
}

struct tlsblock *tlsblock_new(void)
{
	return NULL;
}

void tlsblock_free(struct tlsblock *b)
{
	(void)b;
}

bool tlsblock_renew(struct tlsblock *b)
{
	(void)b;
	return false;
}

void tlsblock_prepare(struct tlsblock *b, char *stack, size_t bytes)
{
	(void)b, (void)stack, (void)bytes;
}

void tlsblock_first(void)
{
}

void tlsblock_last(void)
{
}

void tlsblock_reset(struct tlsblock *b)
{
	(void)b;
}

void tlsblock_forked(void)
{
}

void tlsblock_keep(struct tlsblock *b)
{
	(void)b;
}

struct tlsblock *tlsblock_second(struct tlsblock *b)
{
	(void)b;
	return NULL;
}

void tlsblock_prepare_second(void)
{
}

void tlsblock_on_note(void (*fn)(void))
{
	(void)fn;
}

int tlsblock_note_send(int tid)
{
	(void)tid;
	return -1;
}

void tlsblock_own(struct tlsblock *b, char *stack, size_t bytes)
{
	(void)b, (void)stack, (void)bytes;
}
