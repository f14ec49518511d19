#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gmp-run: threads that spin, and a sleep beside threads that compute, take not much longer than
# natively.  It needs a CPU.
#
#   run_spinning.sh BUILD
#
# The bound of a time is the longer of these two, times 3 for a machine that runs other programs:
#   barrier: 2 x threads x 10 ms / CPUs + 50 ms, two time slices of each thread; sleep: 200 ms;
#            trylock: 3 s, since a thread that holds the mutex may lose its CPU, natively too
#   3 x the time natively, under taskset
# with as many CPUs as Ps, at most those of the machine.
set -euo pipefail
build=$1
program=$build/tests/posix_spinning
run=$build/tools/gmp-run
slice=10
margin=3
"$run" "$build/tests/posix_whole" args 2>&1 | grep -q 'not supported here' && exit 77
command -v taskset >/dev/null || exit 77

# the CPUs of this process, one for each line
mapfile -t cpus < <(taskset -pc $$ | sed 's/.*: //; s/,/\n/g' |
	while IFS=- read -r from to; do seq "$from" "${to:-$from}"; done)

# check MS THREADS ARGUMENTS...: the program's result at 1, 2 and 4 Ps; MS, and two time slices of
# that many threads, are the bound if 3 x native is less. A result above the bound counts if three
# pairs of runs have one: other programs may take the CPUs in one of a pair. The first pair may have
# the native run of another number of Ps with as many CPUs.
check() {
	local ms=$1 threads=$2 procs use native green bound try cpus_of_native=
	shift 2
	for procs in 1 2 4; do
		use=$((procs < ${#cpus[@]} ? procs : ${#cpus[@]}))
		for try in 1 2 3; do
			if [ $try -gt 1 ] || [ "$cpus_of_native" != $use ]; then
				native=$(taskset -c "$(IFS=,; echo "${cpus[*]:0:use}")" \
					"$program" "$@")
				cpus_of_native=$use
			fi
			bound=$((2 * threads * slice / use + ms))
			[ $bound -ge $((3 * native)) ] || bound=$((3 * native))
			bound=$((margin * bound))
			if ! green=$(timeout 60 "$run" --procs $procs "$program" "$@"); then
				echo "FAILED: $* at $procs Ps: no end in 60 s, or a failure"
				exit 1
			fi
			echo "$* at $procs Ps: $green ms, natively $native, bound $bound"
			[ "$green" -gt $bound ] || break
			[ $try -lt 3 ] || status=1
		done
	done
}

status=0
check 50 10 barrier 10
check 50 16 barrier 16
check 50 64 barrier 64
check 3000 0 trylock 10 2
check 200 0 sleep 16 400
exit $status
