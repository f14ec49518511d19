# SPDX-License-Identifier: MIT
# check: scripts/check-policy
# expect: ^src/chan\.c:[0-9]+: SPIN_TICKS_MAX is defined in src/base/policy\.def$
printf 'enum { SPIN_TICKS_MAX = 4 };\n' >>src/chan.c
