/* SPDX-License-Identifier: MIT */
/* Policy: the constants of policy.def, or variables of these names for unit.policy. */
#ifndef GMP_POLICY_H
#define GMP_POLICY_H

#include "base/base.h"

#ifdef GMP_POLICY_TUNABLE
#define POLICY(name, ...) extern int name;
#include "base/policy.def"
#else
enum {
#define POLICY(name, value, ...) name = (value),
#include "base/policy.def"
};
#endif
#undef POLICY

#endif
