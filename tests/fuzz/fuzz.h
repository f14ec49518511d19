/* SPDX-License-Identifier: MIT */
/*
 * Shared code of the fuzz targets: decisions from input bytes, and assertions.
 *
 * A target is LLVMFuzzerTestOneInput of libFuzzer; ./dev fuzz builds and runs them, under
 * AddressSanitizer and UndefinedBehaviorSanitizer.  An input that fails is kept as
 * build/fuzz/NAME-crash-..., and the program given its name runs it alone.
 */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *at, *end;
};

/* Returns 0 to n - 1, or 0 if the input is used up. */
static inline unsigned choose(struct input *in, unsigned n)
{
	return in->at < in->end ? *in->at++ % n : 0;
}

#define HOLDS(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #cond);   \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

#endif
