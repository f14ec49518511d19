# SPDX-License-Identifier: MIT
# check: scripts/check-floors
# expect: ^src/park.c: a file of the core includes observe/latency.h$
mkdir -p src/observe
echo '/* SPDX-License-Identifier: MIT */' >src/observe/latency.h
sed -i "s/^\tpark\.c/&\n\tobserve\/latency.h/" src/floors.cmake
echo '#include "observe/latency.h"' >>src/park.c
