#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gmp-run: a thread ends in blocking code that it has left by siglongjmp; gmp_stop does not end the
# run; after pthread_exit of main the last OS thread of the program ends the process; a signal that
# all threads of the program block does not.
#
#   run_ends.sh BUILD
set -euo pipefail
build=$1
program=$build/tests/posix_ends
run=$build/tools/gmp-run
"$run" "$build/tests/posix_whole" args 2>&1 | grep -q 'not supported here' && exit 77
same() {
	local wanted got
	wanted=$("$program" "$1"; echo "status $?")
	got=$("$run" "$program" "$1"; echo "status $?")
	[ "$got" = "$wanted" ] && [[ $got != *failed* ]] || {
		echo "$1 at ${GMP_PROCS:-} Ps, ${GMP_SCHED:-}: $got"
		echo "natively: $wanted"
		exit 1
	}
}
for procs in 1 2 4; do
	export GMP_PROCS=$procs
	for name in jump jump_main stop outside outside_exits outside_makes fork_outside blocked; do
		same $name
	done
	EARLY=1 same early
done
unset GMP_PROCS
export GMP_SCHED=thread
for name in outside outside_exits outside_makes fork_outside blocked; do
	same $name
done
EARLY=1 same early
