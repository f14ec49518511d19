#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gmp-run: a program does the same as without it: arguments, exit status, atexit, pthread_exit of
# main, exit of another thread; its threads are no OS threads.
#
#   run_main.sh BUILD
set -euo pipefail
build=$1
whole=$build/tests/posix_whole
unwind=$build/tests/posix_unwind # with a C++ compiler
run=$build/tools/gmp-run
"$run" "$whole" args >/dev/null 2>"$build/run_main.err" || [ $? = 4 ] || {
	if grep -q 'not supported here' "$build/run_main.err"; then
		echo "skipped: no own thread-locals on this machine"
		exit 77
	fi
	cat "$build/run_main.err"
	exit 1
}
same() {
	local native green program=${program:-$whole}
	native=$(WHOLE=1 "$program" "$@" 2>&1; echo "status $?")
	green=$(WHOLE=1 "$run" "$program" "$@" 2>&1; echo "status $?")
	if [ "$native" != "$green" ]; then
		echo "$*: natively:"
		echo "$native"
		echo "$*: gmp-run:"
		echo "$green"
		exit 1
	fi
}
for procs in 1 2 4; do
	export GMP_PROCS=$procs
	same args a "b c" ""
	same sigpipe
	same raise
	same threads
	same exit_thread
	same main_exits
	same none
	program=$build/tests/posix_allocator same
	[ ! -x "$unwind" ] || program=$unwind same
	[ "$("$run" "$whole" count | head -n 1)" = few ]
	[ "$("$whole" count | head -n 1)" = many ]
done
unset GMP_PROCS
# a shell unblocks signals by sigsetmask
[ "$("$run" sh -c '/bin/true; yes | head -n 1' 2>&1)" = y ]
# kill of the own process takes the default action before it returns, also if there is a handler
for signal in PIPE SEGV TERM; do
	status=0
	out=$("$run" sh -c "trap : USR1; kill -$signal \$\$; echo no" 2>&1) || status=$?
	[ "$out" = '' ]
	[ "$status" -gt 128 ]
done
# SIGPIPE ends a program
set +eo pipefail
"$run" yes | head -n 1 >/dev/null
status=${PIPESTATUS[0]}
set -eo pipefail
[ "$status" = 141 ]
[ "$("$run" --procs 3 "$whole" count | head -n 1)" = few ]
[ "$("$run" --no-children "$whole" child | head -n 1)" = many ]
[ "$("$run" "$whole" child | head -n 1)" = few ]
[ "$(LD_PRELOAD=libm.so.6 "$run" --no-children /bin/sh -c 'echo $LD_PRELOAD')" = libm.so.6 ]
