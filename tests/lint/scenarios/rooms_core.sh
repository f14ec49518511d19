# SPDX-License-Identifier: MIT
# check: scripts/check-floors
# expect: ^posix/call/hook\.h: includes park\.h; run/door\.h must be enough$
mkdir -p posix/call
echo '#include "park.h"' >posix/call/hook.h
