# SPDX-License-Identifier: MIT
# check: scripts/check-floors
# expect: ^src/select\.c: not in src/floors\.cmake$
echo '/* SPDX-License-Identifier: MIT */' >src/select.c
