#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Tests that gdb and its thread library work in a process whose OS threads have the blocks of green
# threads with own thread-locals loaded: gdb lists the threads and prints a thread-local of the
# stopped green thread, and the program continues to its end.
#
#   owntls.sh PROGRAM
. "$(dirname "$0")/lib.bash"
program=$1
command -v gdb >/dev/null || { echo "no gdb"; exit 77; }
status=0
"$program" || status=$?
[ $status != 77 ] || { echo "no own thread-locals"; exit 77; }
what='a process with own thread-locals'
[ $status = 0 ] || { echo "$what: status $status"; exit 1; }

stop=(-ex 'printf "value %d own %d\n", value, own' -ex 'info threads' -ex continue)
gdb -nx -batch -iex 'set debuginfod enabled off' -ex 'set width 0' -ex 'break at_rest' -ex run \
	"${stop[@]}" "${stop[@]}" "${stop[@]}" "${stop[@]}" "$program" </dev/null \
	>"$tmp/out" 2>&1 || true
for value in 101 102 103 104; do
	has "^value $value own $value\$"
done
has '^\* [0-9]+ +Thread 0x[0-9a-f]+ \(LWP [0-9]+\) .*at_rest '
has_not '[Cc]annot find|[Cc]annot get|[Ww]arning|Python Exception|internal-error'
has 'exited normally'
show
