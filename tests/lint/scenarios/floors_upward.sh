# SPDX-License-Identifier: MIT
# check: scripts/check-floors
# expect: ^src/base/lock\.c \(floor 0\) includes park\.h \(floor 1\)$
echo '#include "park.h"' >>src/base/lock.c
