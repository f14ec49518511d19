#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Does gdb show the green threads, of a process that lives and in core files?
#
#   check.sh SCRIPT PROGRAM
set -euo pipefail
export LC_ALL=C
script=$1 program=$2
command -v gdb >/dev/null || { echo "no gdb"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# in_gdb ARGUMENTS...
in_gdb() {
	gdb -nx -batch -iex 'set debuginfod enabled off' -ex 'set width 0' \
		-ex "source $script" "$@" </dev/null >"$tmp/out" 2>&1 || true
}

# has PATTERN: the output has such a line
has() {
	grep -Eq -e "$1" "$tmp/out" && return
	echo "$what: no line matches: $1"
	failed=1
}

has_not() {
	grep -Eq -e "$1" "$tmp/out" || return 0
	echo "$what: a line matches: $1"
	failed=1
}

# block TITLE: only the lines of that green thread's backtrace
block() {
	cp "$tmp/out" "$tmp/whole"
	awk -v title="$1" 'index($0, title) == 1 { on = 1 } /^$/ { on = 0 } on' "$tmp/whole" >"$tmp/out"
}

whole() { cp "$tmp/whole" "$tmp/out"; }

show() {
	[ $failed = 0 ] || { cat "$tmp/out"; exit 1; }
}

looks=(-ex 'info gmp' -ex 'gmp bt all' -ex 'gmp with 2 frame function take_one'
	-ex 'gmp bt 99' -ex 'gmp bt nobody')

# check WHAT: what the looks show of target.c
check() {
	what=$1
	has '^\* 1 +running +LWP [0-9]+ +"" +app$'
	has '^  2 +waiting \(channel receive\) +- +"clerk" +receiver$'
	has '^  3 +waiting \(sleep\) +- +"" +sleeper$'
	has '^  4 +waiting \(mutex lock\) +- +"locker" +locker$'
	has '^  5 +in blocking code +LWP [0-9]+ +"blocker" +blocker$'
	has '^  6 +runnable +- +"begun" +ready_to_go$'
	has '^  7 +runnable \(new\) +- +"fresh" +sleeper$'
	has_not 'Python Exception|Backtrace stopped|corrupt'
	block 'green thread 1 '
	has '^#[0-9]+ .*at_rest '
	has '^#[0-9]+ .* app '
	whole
	block 'green thread 2 "clerk" (entry receiver): waiting (channel receive)'
	has '^#0 '
	has '^#[0-9]+ .* gmp_chan_recv '
	[ "$(grep -c ' take_one ' "$tmp/out")" = 3 ] || has 'take_one three times'
	has '^#[0-9]+ .* receiver '
	has '^#[0-9]+ .* g_main '
	has_not ' app '
	whole
	block 'green thread 4 '
	has '^#[0-9]+ .* gmp_mutex_lock '
	has '^#[0-9]+ .* locker '
	whole
	block 'green thread 5 "blocker" (entry blocker): in blocking code, on thread LWP'
	has '^#[0-9]+ .* blocker '
	whole
	block 'green thread 6 '
	has '^#[0-9]+ .* gmp_yield '
	has '^#[0-9]+ .* ready_to_go '
	whole
	block 'green thread 7 '
	has '^has not run yet'
	whole
	has '^#[0-9]+ .* take_one .*depth'
	has '^gmp: there is no green thread 99'
	has '^gmp: nobody is not the number of a green thread'
	show
}

in_gdb -ex 'break at_rest' -ex run "${looks[@]}" -ex 'echo now the thread itself\n' -ex bt \
	-ex 'info gmp' -ex "gmp core $tmp/core" -ex kill "$program"
check 'a process'
sed -i '1,/now the thread itself/d' "$tmp/out"
has '^#0 +at_rest '
has '^\* 1 '
show

in_gdb "${looks[@]}" "$program" "$tmp/core"
check 'a core file of gmp core'
in_gdb -ex 'thread 2' -ex 'gmp bt 2' -ex 'gmp bt 4 2' "$program" "$tmp/core"
what='from another thread'
has '^#[0-9]+ .* receiver '
block 'green thread 4 '
has '^#1 '
has_not '^#2 '
show

# the kernel's, where it puts them into the folder
mkdir "$tmp/kernel"
case $(cat /proc/sys/kernel/core_pattern) in
'|'* | */*) echo "no core files of the kernel's: /proc/sys/kernel/core_pattern" ;;
*)
	if ulimit -c unlimited; then
		(cd "$tmp/kernel" && TARGET_ABORTS=1 "$program") 2>/dev/null || true
		in_gdb "${looks[@]}" "$program" "$tmp"/kernel/*core*
		check "a core file of the kernel's"
	else
		echo "no core files of the kernel's: ulimit -c"
	fi
	;;
esac

in_gdb -ex 'info gmp' /bin/true
what='a program without gmp'
has '^gmp: no runtime here'
show
in_gdb -ex 'info gmp' "$program"
what='a program that has not begun'
has '^No green threads|^gmp: '
show
