# SPDX-License-Identifier: MIT
# check: scripts/check-floors
# expect: ^posix/call/park\.h: has the name of src/park\.h$
mkdir -p posix/call
echo '/* SPDX-License-Identifier: MIT */' >posix/call/park.h
