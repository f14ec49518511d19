# SPDX-License-Identifier: MIT
# The sources of the fixture: two floors.

set(GMP_FLOOR0
	base/lock.c
)
set(GMP_FLOOR0_HEADERS
	base/base.h
	base/policy.def
)

set(GMP_FLOOR1
	chan.c
	park.c
	mode/vtime.c
)
set(GMP_FLOOR1_HEADERS)
