/* SPDX-License-Identifier: MIT */
/* gmp_version_string: the version that this library was built as. */
#include "gmp.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)

const char *gmp_version_string(void)
{
	return STRING(GMP_VERSION_MAJOR) "." STRING(GMP_VERSION_MINOR) "." STRING(
		GMP_VERSION_PATCH);
}
