# SPDX-License-Identifier: MIT
# check: scripts/check-policy
# expect: ^src/chan\.c:[0-9]+: NAP_NS belongs into src/base/policy\.def, or with a reason into
printf 'enum {\n\tFIRST = 1,\n\tNAP_NS = 20,\n};\n' >>src/chan.c
