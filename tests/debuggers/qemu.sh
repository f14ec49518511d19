#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Tests that gdb shows the green threads of a program for another machine, which qemu-user runs.
#
#   qemu.sh SCRIPT PROGRAM EMULATOR...
. "$(dirname "$0")/lib.bash"
script=$1 program=$2
shift 2
command -v gdb-multiarch >/dev/null || { echo "no gdb-multiarch"; exit 77; }
command -v "$1" >/dev/null || { echo "no $1"; exit 77; }

while [ $# -gt 0 ] && [ "$1" != -L ]; do
	emulator+=("$1")
	shift
done
"${emulator[@]}" -L "$2" -g "$tmp/gdb" "$program" &
qemu=$!
trap 'kill $qemu 2>/dev/null || true; rm -rf "$tmp"' EXIT
for ((tries = 0; tries < 600; tries++)); do
	[ -S "$tmp/gdb" ] && break
	kill -0 $qemu 2>/dev/null || { echo "qemu-user does not wait for gdb"; exit 77; }
	sleep 0.1
done

gdb-multiarch -nx -batch -iex 'set debuginfod enabled off' -ex 'set width 0' \
	-ex "set sysroot $2" -ex "source $script" -ex "file $program" \
	-ex "target remote $tmp/gdb" -ex 'break at_rest' -ex continue -ex 'info gmp' \
	-ex 'gmp bt all' -ex 'gmp with 2 frame function take_one' -ex 'gmp bt 99' \
	-ex 'gmp bt word' -ex 'echo backtrace of the thread\n' -ex bt -ex kill \
	</dev/null >"$tmp/out" 2>&1 || true

what=$program
# The program runs while gdb starts, so the state of 1, 7 and 8 depends on time.
has '^\* 1 +running.* +LWP [0-9]+ +"" +app$'
has '^  2 +waiting \(channel receive\) +- +"clerk" +receiver$'
has '^  4 +waiting \(mutex lock\) +- +"locker" +locker$'
has '^  5 +in blocking code +LWP [0-9]+ +"blocker" +blocker$'
has '^  6 +running without a P +LWP [0-9]+ +"stuck" +stuck$'
has '^gmp: there is no green thread 99'
has_not 'Python Exception|Backtrace stopped|corrupt'
f='^#[0-9]+ .* ' e=' '
block 'green thread 2 "clerk" (entry receiver): waiting (channel receive)'
called gmp_chan_recv
[ "$(grep -Ec "${f}take_one$e" "$tmp/out")" = 3 ] || has 'take_one three times'
has "${f}receiver$e"
has "${f}g_main$e"
whole
block 'green thread 4 '
called "(gmp_mutex_lock|mutex_lock_slow)"
has "${f}locker$e"
whole
block 'green thread 5 "blocker" (entry blocker): in blocking code, on thread LWP'
has "${f}blocker$e"
whole
has '^#[0-9]+ .* take_one .*depth'
sed -i '1,/backtrace of the thread/d' "$tmp/out"
has '^#0 +at_rest '
has ' app '
show
