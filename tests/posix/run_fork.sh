#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gmp-run: the child of a fork starts a runtime at its first pthread_create, and so does its child;
# pthread_exit of its first thread waits for the others.  The cases of programs/forks.c print the
# same as natively.  It computes for seconds: it needs a CPU.
#
#   run_fork.sh BUILD
set -euo pipefail
build=$1
whole=$build/tests/posix_whole
run=$build/tools/gmp-run
"$run" "$whole" args 2>&1 | grep -q 'not supported here' && exit 77
wanted='sum 190
few
sum 190
atexit
child 6
atexit'
for procs in 1 2 4; do
	got=$(GMP_PROCS=$procs "$run" "$whole" fork || [ $? = 4 ])
	# exit of the grandchild and of the child
	[ "$(echo "$got" | grep -v '^atexit')" = "$(echo "$wanted" | grep -v '^atexit')" ] || {
		echo "$got"
		exit 1
	}
	got=$(GMP_PROCS=$procs "$run" "$whole" fork_exit || [ $? = 4 ])
	[ "$got" = $'last\nchild 0\natexit' ] || {
		echo "$got"
		exit 1
	}
done
forks=$build/tests/posix_forks
cases=(self park nested loop busy exec signals exits users users_later outside held)
for procs in 1 2 4; do
	for name in "${cases[@]}"; do
		wanted=$("$forks" "$name")
		got=$(GMP_PROCS=$procs "$run" "$forks" "$name")
		[ "$got" = "$wanted" ] && [ -n "$got" ] && [[ $got != *failed* ]] || {
			echo "$name at $procs Ps: $got"
			echo "natively: $wanted"
			exit 1
		}
	done
	got=$(GMP_PROCS=$procs "$run" "$forks" overflow 2>&1)
	[[ $got == *'stack overflow in green thread'*'signal 11' ]] || {
		echo "$got"
		exit 1
	}
done
