# SPDX-License-Identifier: MIT
# check: scripts/check-floors
# expect: ^floor 1: include cycle: chan -> park -> chan$
printf '#include "chan.h"\n' >>src/park.h
printf '/* SPDX-License-Identifier: MIT */\n' >src/chan.h
sed -i 's/^#include "base\/lock.h"/#include "chan.h"\n&/' src/chan.c
