# SPDX-License-Identifier: MIT
#
# Helpers for the tests of the debugger scripts: checks of the debugger's output, $tmp/out, and the
# output about target.c that all debuggers must show. $what names the checked program.
set -euo pipefail
export LC_ALL=C
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# has PATTERN: fails unless a line of the output matches
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

# block TITLE: reduces the output to the backtrace of that green thread; whole restores it
block() {
	cp "$tmp/out" "$tmp/whole"
	awk -v title="$1" 'index($0, title) == 1 { on = 1 } /^$/ { on = 0 } on' "$tmp/whole" \
		>"$tmp/out"
}

whole() { cp "$tmp/whole" "$tmp/out"; }

show() {
	[ $failed = 0 ] || { cat "$tmp/out"; exit 1; }
}

# check_list: the list of green threads
check_list() {
	has '^\* 1 +running +LWP [0-9]+ +"" +app$'
	has '^  2 +waiting \(channel receive\) +- +"clerk" +receiver$'
	has '^  3 +waiting \(sleep\) +- +"" +sleeper$'
	has '^  4 +waiting \(mutex lock\) +- +"locker" +locker$'
	has '^  5 +in blocking code +LWP [0-9]+ +"blocker" +blocker$'
	has '^  6 +running without a P +LWP [0-9]+ +"stuck" +stuck$'
	has '^  7 +runnable +- +"begun" +ready_to_go$'
	has '^  8 +runnable \(new\) +- +"fresh" +sleeper$'
	has '^(error: )?gmp: there is no green thread 99'
	has '^(error: )?gmp: word is not the number of a green thread'
}

# called FUNCTION: the waiting function, which has no frame in optimised builds
called() {
	has "${f}$1$e|^in $1, left by a jump$"
}

# check_calls BEFORE AFTER: the backtraces; BEFORE and AFTER match the text around a function name
check_calls() {
	local f=$1 e=$2
	block 'green thread 1 '
	has "${f}at_rest(\.cold)?$e"
	has "${f}app$e"
	whole
	block 'green thread 2 "clerk" (entry receiver): waiting (channel receive)'
	called gmp_chan_recv
	[ "$(grep -Ec "${f}take_one$e" "$tmp/out")" = 3 ] || has 'take_one three times'
	has "${f}receiver$e"
	has "${f}g_main$e"
	has_not "${f}app$e"
	whole
	block 'green thread 4 '
	called "(gmp_mutex_lock|mutex_lock_slow)" # the former may jump to the latter
	has "${f}locker$e"
	whole
	block 'green thread 5 "blocker" (entry blocker): in blocking code, on thread LWP'
	has "${f}blocker$e"
	whole
	block 'green thread 6 "stuck" (entry stuck): running without a P, on thread LWP'
	has "${f}stuck$e"
	whole
	block 'green thread 7 '
	called gmp_yield
	has "${f}ready_to_go$e"
	whole
	block 'green thread 8 '
	has '^has not run yet'
	whole
}

# in_kernel_core COMMAND...: appends a core file of the kernel to the command, if one can be written
in_kernel_core() {
	mkdir "$tmp/kernel"
	case $(cat /proc/sys/kernel/core_pattern) in
	'|'* | */*) echo "the kernel writes no core file: /proc/sys/kernel/core_pattern" ;;
	*)
		if ulimit -c unlimited; then
			{ (cd "$tmp/kernel" && TARGET_ABORTS=1 "$program") || true; } 2>/dev/null
			"$@" "$tmp"/kernel/*core*
		else
			echo "the kernel writes no core file: ulimit -c"
		fi
		;;
	esac
}
