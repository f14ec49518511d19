#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Tests that lldb shows the green threads of a running process and of core files.
#
#   lldb.sh SCRIPT PROGRAM
. "$(dirname "$0")/lib.bash"
script=$1 program=$2
command -v lldb >/dev/null || { echo "no lldb"; exit 77; }

# The lldb of Debian 12 does not find its own Python module.
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

commands=(-o 'gmp info' -o 'gmp bt all' -o 'gmp with 2/5 frame info')
for wrong in 'gmp bt 99' 'gmp bt word' gmp; do
	commands+=(-o "script lldb.debugger.HandleCommand('$wrong')") # a plain error would end lldb
done
commands+=(-o 'script print("thread commands")' -o 'gmp bt 4 2' -o 'thread list')

# check WHAT: the output of the commands for target.c
check() {
	what=$1
	check_list
	check_calls '^  [ *] frame #[0-9]+: .*`' '[ (]'
	has_not Traceback
	has 'take_one\(.*depth=0'
	has '^error: gmp: info, bt ID'
	show
}

# check_threads: the green threads are no longer in the thread list of lldb
check_threads() {
	sed -i '1,/thread commands/d' "$tmp/out"
	has '^\* thread .*(at_rest|SIGABRT)'
	has 'frame #1: '
	has_not 'frame #2: '
	has '^[* ] thread #3'
	# thread ids of the kernel are shorter; those of green threads start at 2^40
	has_not '^[* ] thread #.* tid = (0x)?[0-9a-f]{8}'
	show
}

in_lldb -o 'breakpoint set -n at_rest' -o run "${commands[@]}" -o kill "$program"
check 'a process'
check_threads

check_core() {
	in_lldb "${commands[@]}" -c "$1" "$program"
	check "a core file of the kernel"
	check_threads
}
in_kernel_core check_core

in_lldb -o 'gmp info' "$program"
what='a program that has not started'
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
