#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gmp-run: a handler of SIGTERM or SIGALRM ends accept, read, poll and sem_wait of main with EINTR.
#
#   run_interrupt.sh BUILD
set -euo pipefail
build=$1
program=$build/tests/posix_interrupted
run=$build/tools/gmp-run
if ! "$run" true 2>"$build/run_interrupt.err"; then
	grep -q 'not supported here' "$build/run_interrupt.err" && {
		echo "skipped: no own thread-locals on this machine"
		exit 77
	}
	cat "$build/run_interrupt.err"
	exit 1
fi
natively=$("$program")
[ "$(grep -c 'Interrupted system call, main: 1, elsewhere: 0' <<<"$natively")" = 8 ]
for procs in 1 2 4; do
	green=$(GMP_PROCS=$procs "$run" "$program")
	[ "$natively" = "$green" ] || {
		echo "natively:"
		echo "$natively"
		echo "gmp-run, $procs Ps:"
		echo "$green"
		exit 1
	}
done
