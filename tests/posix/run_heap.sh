#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gmp-run: a program may set the threshold of mappings to 32 KiB or more, and a lower one counts
# as 32 KiB.  What else mallopt sets is as natively.
#
#   run_heap.sh BUILD
set -euo pipefail
build=$1
heap=$build/tests/posix_heap
run=$build/tools/gmp-run
"$run" "$heap" threshold 4096 5000 >/dev/null 2>"$build/run_heap.err" || {
	if grep -q 'not supported here' "$build/run_heap.err"; then
		echo "skipped: no own thread-locals on this machine"
		exit 77
	fi
	cat "$build/run_heap.err"
	exit 1
}
if [ "$("$heap" threshold 4096 5000)" != "1 mapping" ]; then
	echo "skipped: malloc is not glibc's"
	exit 77
fi
is() { # EXPECTED COMMAND...
	local want=$1 got
	shift
	got=$("$@")
	if [ "$got" != "$want" ]; then
		echo "$*: $got, not $want"
		exit 1
	fi
}
is "1 heap" "$run" "$heap" threshold 4096 5000
is "1 heap" "$run" "$heap" threshold 0 30000
is "1 mapping" "$run" --keep-mallopt "$heap" threshold 4096 5000
is "1 mapping" "$run" "$heap" threshold 4096 33000
is "1 mapping" "$run" "$heap" threshold 40000 41000
is "1 heap" "$run" "$heap" threshold 40000 39000
is "1 heap" "$run" "$heap" threshold 400000 200000
# without gmp in the program, and with gmp but natively
is "1 mapping" "$run" --no-children sh -c '"$0" threshold 4096 5000' "$heap"
is "1 mapping" env LD_PRELOAD="$build/libgmprt_posix.so" "$heap" threshold 4096 5000
# M_MXFAST is at most 160 bytes; M_ARENA_MAX; a parameter that does not exist
for args in "1 10000" "1 64" "-8 2" "12345 1"; do
	# shellcheck disable=SC2086
	is "$("$heap" $args 5000)" "$run" "$heap" $args 5000
done
