#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A green thread that cancels its own OS thread: gmp_run returns, or a line names the fault; the
# process never ends without either.
. "$(dirname "$0")/lib.sh"
program cancel_self.c
for which in caller own; do
	for procs in 1 2; do
		for i in 1 2 3 4 5; do
			run GMP_PROCS=$procs "$scratch/cancel_self" $which
			case $status in
			0)
				grep -q '^returned 0$' "$scratch/out" && continue
				show
				fail "$which, $procs Ps: ended silently"
				;;
			134)
				grep -q '^gmp: fatal: .*cancel' "$scratch/err" && continue
				show
				fail "$which, $procs Ps: no line"
				;;
			*) show; fail "$which, $procs Ps: status $status" ;;
			esac
		done
	done
done
