# SPDX-License-Identifier: MIT
# check: scripts/check-terms
# expect: ^src/park\.c:[0-9]+: park_patience: "patience" is not in docs/terms\.tsv$
echo 'struct park_patience { int ns; };' >>src/park.c
