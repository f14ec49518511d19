# SPDX-License-Identifier: MIT
# check: scripts/check-floors
# expect: ^posix/call/hook\.h: includes posix/signal/mask\.h of a later room$
mkdir -p posix/call posix/signal
echo '/* SPDX-License-Identifier: MIT */' >posix/signal/mask.h
echo '#include "posix/signal/mask.h"' >posix/call/hook.h
