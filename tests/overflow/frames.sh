#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Tests that a stack overflow by a frame of up to MOST bytes is fatal and names the green thread.
#
#   frames.sh PROGRAM MOST
set -u
export LC_ALL=C
prog=$1 most=$2
ulimit -c 0
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
failed=0

for kib in 16 32 64 128 256 512 1024; do
	for frame in 1000 4200 8192 12000 16384 32768 65536 100000 250000 1048576; do
		[ "$frame" -le "$most" ] || continue
		sh -c '"$0" "$1" "$2"; exit $?' "$prog" $kib "$frame" >/dev/null 2>"$tmp/err"
		status=$?
		line='^gmp: fatal: stack overflow in green thread [0-9]+ "digger" '
		line="$line\(entry digger\): $((kib * 1024)) bytes reserved, "
		line="${line}[0-9]+ bytes past the end, in dig_$frame"
		if [ $status != 139 ] || ! head -n 1 "$tmp/err" | grep -Eq "$line"; then
			echo "stack of $kib KiB, frame of $frame bytes: status $status"
			cat "$tmp/err"
			failed=1
		fi
	done
done
exit $failed
