#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Does lldb show the green threads, of a process that lives and in core files?
#
#   lldb.sh SCRIPT PROGRAM
. "$(dirname "$0")/lib.bash"
script=$1 program=$2
command -v lldb >/dev/null || { echo "no lldb"; exit 77; }

# Debian 12's does not find its own part in Python.
has_python() { lldb -b -o 'script print(6 * 7)' 2>&1 </dev/null | grep -qx 42; }
for folder in "${PYTHONPATH-}" /usr/lib/llvm-*/lib/python3*/dist-packages; do
	export PYTHONPATH=$folder
	has_python && break
done
has_python || { echo "no Python in lldb"; exit 77; }

# in_lldb ARGUMENTS...
in_lldb() {
	lldb -x -b \
		-o "command script import $script" "$@" </dev/null >"$tmp/out" 2>&1 || true
}

looks=(-o 'gmp info' -o 'gmp bt all' -o 'gmp with 2/5 frame info')
for wrong in 'gmp bt 99' 'gmp bt nobody' gmp; do
	looks+=(-o "script lldb.debugger.HandleCommand('$wrong')") # an error would be the end
done
looks+=(-o 'script print("now the threads")' -o 'gmp bt 4 2' -o 'thread list')

# check WHAT: what the looks show of target.c
check() {
	what=$1
	check_list
	check_calls '^  [ *] frame #[0-9]+: .*`' '[ (]'
	has_not Traceback
	has 'take_one\(.*depth=0'
	has '^error: gmp: info, bt ID'
	show
}

# check_threads N: the green threads have gone from lldb's list
check_threads() {
	sed -i '1,/now the threads/d' "$tmp/out"
	has '^\* thread .*(at_rest|SIGABRT)'
	has 'frame #1: '
	has_not 'frame #2: '
	has '^[* ] thread #3'
	has_not '^[* ] thread #.* tid = (0x)?[0-9a-f]{8}' # the kernel's numbers are shorter, and theirs from 2^40
	show
}

in_lldb -o 'breakpoint set -n at_rest' -o run "${looks[@]}" -o kill "$program"
check 'a process'
check_threads

look_into() {
	in_lldb "${looks[@]}" -c "$1" "$program"
	check "a core file of the kernel's"
	check_threads
}
in_kernel_core look_into

in_lldb -o 'gmp info' "$program"
what='a program that has not begun'
has '^error: gmp: there is no process'
show
in_lldb -o 'breakpoint set -n main' -o run -o 'gmp info' -o kill "$program"
what='a program that has no green threads'
has '^No green threads|^error: gmp: '
show
in_lldb -o 'process launch --stop-at-entry' -o 'gmp info' -o kill /bin/true
what='a program without gmp'
has '^error: gmp: no runtime here'
show
