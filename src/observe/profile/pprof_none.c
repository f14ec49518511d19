/* SPDX-License-Identifier: MIT */
/* Profiles in a build without the compiler of protobuf-c: there are none. */
#include "observe/profile/pprof.h"

#include <errno.h>

int pprof_available(void)
{
	return -ENOTSUP;
}

int pprof_encode(const struct pprof_profile *p, struct pprof_out *out)
{
	(void)p;
	(void)out;
	return -ENOTSUP;
}
