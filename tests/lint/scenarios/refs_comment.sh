# SPDX-License-Identifier: MIT
# check: scripts/check-refs
# expect: ^src/mode/vtime\.c:8: no wait_on in src/park\.c$
echo '/* The caller is park.c:wait_on. */' >>src/mode/vtime.c
