# SPDX-License-Identifier: MIT
# check: scripts/check-floors
# expect: ^src, posix: 26 names of scheduler generations outside of src/variant/ instead of 25
for n in $(seq 26); do
	echo "/* GMP_SCHED_LOCAL: $n */" >>src/park.c
done
