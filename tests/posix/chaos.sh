#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The conformance tests on green threads under GMP_DEBUG=chaos (variant/chaos.h), with one seed the
# cases on two Ps only.  Cases of calls that the kernel does not restart skip themselves: chaos ends
# such a call with EINTR.  Two run at a time: it needs a CPU.
#
#   chaos.sh BUILD [SEEDS]      (default 1)
set -u
build=$1
seeds=${2:-1}
limit=60 # seconds of a case
pattern='/[124]p$'
[ "$seeds" -gt 1 ] || pattern='/2p$'
logs=$(mktemp -d) || exit 1
trap 'rm -rf "$logs"' EXIT

# A failed case may leave children, which keep the output open.
run_case() {
	local log=$1/$BASHPID pid status
	GMP_DEBUG=chaos GMP_SEED=$4 CHECK_SCALE=20 setsid timeout -k 5 "$limit" "$2" "$3" \
		</dev/null >"$log" 2>&1 &
	pid=$!
	wait $pid
	status=$?
	[ $status = 0 ] || [ $status = 77 ] || {
		kill -9 -- -$pid
		echo "GMP_DEBUG=chaos GMP_SEED=$4 $2 $3: status $status"
		tail -c 5000 "$log"
	} >>"$log.failed" 2>&1
}

# run_cases [LOGS PROGRAM NAME SEED]...
run_cases() {
	for (( ; $# > 0; )); do
		run_case "${@:1:4}"
		shift 4
	done
}
export -f run_case run_cases
export limit

for seed in $(seq "$seeds"); do
	for source in "$(dirname "$0")"/*.c; do
		program=$build/tests/posix_$(basename "$source" .c)
		for name in $("$program" --list | grep "$pattern"); do
			echo "$logs $program $name $seed"
		done
	done
done | xargs -P 2 -n 100 bash -c 'run_cases "$@"' cases || exit 1
! cat "$logs"/*.failed 2>/dev/null
