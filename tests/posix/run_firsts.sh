#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gmp-run: the first thread of a child of fork.  A runtime of the program, a signal handler or a
# thread that libc makes is there before its first pthread_create.  It keeps its id, setuid of other
# threads changes it, and no other thread is taken for it.  Fork handlers of libraries meet no
# runtime of the parent.  Mutexes of the parent are not the child's.
#
#   run_firsts.sh BUILD
set -euo pipefail
build=$1
program=$build/tests/posix_firsts
run=$build/tools/gmp-run
"$run" "$build/tests/posix_whole" args 2>&1 | grep -q 'not supported here' && exit 77
for procs in 1 2 4; do
	for name in start handler helper ids early clock; do
		wanted=$("$program" "$name")
		got=$(GMP_PROCS=$procs "$run" "$program" "$name")
		[ "$got" = "$wanted" ] && [ -n "$got" ] && [[ $got != *failed* ]] || {
			echo "$name at $procs Ps: $got"
			echo "natively: $wanted"
			exit 1
		}
	done
done
