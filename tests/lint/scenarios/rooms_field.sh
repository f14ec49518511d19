# SPDX-License-Identifier: MIT
# check: scripts/check-floors
# expect: ^posix/call/hook\.h:2: uses ->curg; a function of src/run/door\.h must be enough$
mkdir -p posix/call
printf '/* SPDX-License-Identifier: MIT */\nint x = m->curg; /* m->resume */\n' >posix/call/hook.h
