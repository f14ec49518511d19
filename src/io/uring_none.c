/* SPDX-License-Identifier: MIT */
/* Build without liburing: file calls are blocking sections (sys/file.c). */
#include "io/uring.h"

#include <errno.h>

bool uring_on(void)
{
	return false;
}

ssize_t uring_call(struct polldesc *pd, uint32_t seq, const struct uring_op *op)
{
	(void)pd;
	(void)seq;
	(void)op;
	return -EAGAIN;
}

void uring_fini(void)
{
}

void uring_forget(void)
{
}
