# SPDX-License-Identifier: MIT
# check: scripts/check-floors
# expect: ^src/uv/uv.c: includes "park.h"; the public headers must be enough$
mkdir -p src/uv
printf '/* SPDX-License-Identifier: MIT */\n#include "park.h"\n' >src/uv/uv.c
