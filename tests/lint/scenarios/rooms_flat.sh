# SPDX-License-Identifier: MIT
# check: scripts/check-floors
# expect: ^posix/hook\.h: in no room of posix/: call,
mkdir -p posix
echo '/* SPDX-License-Identifier: MIT */' >posix/hook.h
