/* SPDX-License-Identifier: MIT */
/*
 * Chaos step: under GMP_DEBUG=chaos each scheduler step of a P draws the G that runs next.
 */
#ifndef GMP_CHAOS_STEP_H
#define GMP_CHAOS_STEP_H

#include "types.h"

void chaos_step(struct p *pp);

#endif
