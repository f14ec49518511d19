#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Tests that gdb shows the green threads of a running process and of core files.
#
#   gdb.sh SCRIPT PROGRAM
. "$(dirname "$0")/lib.bash"
script=$1 program=$2
command -v gdb >/dev/null || { echo "no gdb"; exit 77; }

# in_gdb ARGUMENTS...
in_gdb() {
	gdb -nx -batch -iex 'set debuginfod enabled off' -ex 'set width 0' \
		-ex "source $script" "$@" </dev/null >"$tmp/out" 2>&1 || true
}

commands=(-ex 'info gmp' -ex 'gmp bt all' -ex 'gmp with 2 frame function take_one'
	-ex 'gmp bt 99' -ex 'gmp bt word')

# check WHAT: the output of the commands for target.c
check() {
	what=$1
	check_list
	check_calls '^#[0-9]+ .* ' ' '
	has_not 'Python Exception|Backtrace stopped|corrupt'
	block 'green thread 2 '
	has '^#0 '
	whole
	has '^#[0-9]+ .* take_one .*depth'
	show
}

in_gdb -ex 'break at_rest' -ex run "${commands[@]}" -ex 'echo backtrace of the thread\n' -ex bt \
	-ex 'info gmp' -ex "gmp core $tmp/core" -ex kill "$program"
check 'a process'
sed -i '1,/backtrace of the thread/d' "$tmp/out"
has '^#0 +at_rest '
has '^\* 1 '
show

in_gdb "${commands[@]}" "$program" "$tmp/core"
check 'a core file of gmp core'
in_gdb -ex 'thread 2' -ex 'gmp bt 2' -ex 'gmp bt 4 2' "$program" "$tmp/core"
what='from another thread'
has '^#[0-9]+ .* receiver '
block 'green thread 4 '
has '^#1 '
has_not '^#2 '
show

check_core() {
	in_gdb "${commands[@]}" "$program" "$@"
	check "a core file of the kernel"
}
in_kernel_core check_core

in_gdb -ex 'info gmp' /bin/true
what='a program without gmp'
has '^gmp: no runtime here'
show
in_gdb -ex 'info gmp' "$program"
what='a program that has not started'
has '^No green threads|^gmp: '
show
