#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gmp-run: a seccomp filter that main installs holds for main after each wait, for threads and for
# children, as natively.  The first filter that kills is named.
#
#   run_sandbox.sh BUILD
set -euo pipefail
build=$1
program=$build/tests/posix_sandbox
run=$build/tools/gmp-run
"$run" "$build/tests/posix_whole" args 2>&1 | grep -q 'not supported here' && exit 77
"$program" available >/dev/null || exit $?
same() {
	local wanted got
	wanted=$("$program" "$1"; echo "status $?")
	got=$("$run" "$program" "$1"; echo "status $?")
	if [ "$got" != "$wanted" ] || [[ $got != *'status 0' ]] ||
		grep -q '[1-9] calls' <<<"$got"; then
		echo "$1 at ${GMP_PROCS:-} Ps, ${GMP_SCHED:-}: $got"
		echo "natively: $wanted"
		exit 1
	fi
}
for procs in 1 2 4; do
	export GMP_PROCS=$procs
	for name in available by_prctl by_syscall by_number by_tsync on_an_old_kernel \
		in_a_handler with_a_listener after_threads bad_calls strict; do
		same $name
	done
	[ "$("$run" "$program" strict_main)" = '-1: Invalid argument' ]
done
unset GMP_PROCS
GMP_SCHED=thread same by_syscall
# warns NAME LINES TEXT: the program writes so many lines to stderr, each with this text
warns() {
	local err
	err=$("$run" "$program" "$1" 2>&1 >/dev/null)
	if [ "$(grep -c . <<<"$err")" != "$2" ] || [ "$(grep -c -- "$3" <<<"$err")" != "$2" ]; then
		echo "$1: not $2 lines with \"$3\": $err"
		exit 1
	fi
}
warns kills_thread 1 'installs a seccomp filter that kills a thread: '
warns kills_process 1 'installs a seccomp filter that kills the process: '
warns kills_not_dumpable 1 'installs a seccomp filter that kills a thread: '
warns kills_others 0 'kills'
for name in kills_thread kills_not_dumpable kills_process kills_others; do
	same $name 2>/dev/null
done
