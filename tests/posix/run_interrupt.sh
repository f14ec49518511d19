#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gmp-run: a handler of SIGTERM or SIGALRM ends accept, read, poll and sem_wait of main with EINTR.
# Signals of pthread_kill to main reach it wherever it is.
#
#   run_interrupt.sh BUILD
set -euo pipefail
build=$1
run=$build/tools/gmp-run
if ! "$run" true 2>"$build/run_interrupt.err"; then
	grep -q 'not supported here' "$build/run_interrupt.err" && {
		echo "skipped: no own thread-locals on this machine"
		exit 77
	}
	cat "$build/run_interrupt.err"
	exit 1
fi

# compare PROGRAM: its output natively and on 1, 2 and 4 Ps
compare() {
	local natively green procs
	natively=$("$1")
	for procs in 1 2 4; do
		green=$(GMP_PROCS=$procs timeout 50 "$run" "$1")
		[ "$natively" = "$green" ] || {
			printf '%s\n' "natively:" "$natively" "gmp-run, $procs Ps:" "$green" >&2
			exit 1
		}
	done
	printf '%s\n' "$natively"
}

interrupted=$(compare "$build/tests/posix_interrupted")
[ "$(grep -c 'Interrupted system call, main: 1, elsewhere: 0' <<<"$interrupted")" = 8 ]
killed=$(compare "$build/tests/posix_killed")
[ "$(grep -c 'on main: yes, elsewhere: 0' <<<"$killed")" = 4 ]
[ "$(grep -c 'on main: no, elsewhere: 0' <<<"$killed")" = 1 ]
