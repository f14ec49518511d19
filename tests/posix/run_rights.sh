#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gmp-run: a change of capabilities, securebits, no_new_privs or a Landlock domain by a green thread
# holds on all OS threads, so the next call of setgroups fails on all of them, as natively.
# It computes for seconds: it needs a CPU.
#
#   run_rights.sh BUILD
set -euo pipefail
build=$1
program=$build/tests/posix_rights
run=$build/tools/gmp-run
"$run" "$build/tests/posix_whole" args 2>&1 | grep -q 'not supported here' && exit 77
"$program" alone >/dev/null || exit $?
fail() {
	echo "$1 at ${GMP_PROCS:-} Ps: $2"
	echo "wanted: $3"
	exit 1
}
same() {
	local wanted got
	wanted=$("$program" "$1"; echo "status $?")
	got=$("$run" "$program" "$1"; echo "status $?")
	[[ $1 = landlock && $wanted = 'status 77' ]] && return
	[ "$got" = "$wanted" ] && [[ $got = *'status 0' ]] || fail "$1" "$got" "$wanted"
}
# Natively the call changes one thread.
on_all() {
	local got
	got=$("$run" "$program" "$1"; echo "status $?")
	[ "$got" = "$2" ] || fail "$1" "$got" "$2"
}
for procs in 1 2 4; do
	export GMP_PROCS=$procs
	for name in alone in_a_handler securebits landlock errors; do
		same $name
	done
	on_all in_crowd $'others 0\nsetgroups -1 Operation not permitted\nstatus 0'
	on_all limits "no fd: -1 Too many open files
others 0
one fd: -1 Too many open files
no signal: -1 Resource temporarily unavailable
all: 0
others 0
status 0"
	for name in bounding_set no_new_privs at_once chrooted chrooted_while_threads_begin; do
		on_all $name $'others 0\nstatus 0'
	done
done
