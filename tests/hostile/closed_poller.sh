#!/bin/bash
# SPDX-License-Identifier: MIT
#
# If the program closes gmp's own file descriptors (closefrom, close_range), the process ends with
# an error message. No byte is written to a file that reuses one of them. gmp uses no file
# descriptor below 900 for itself.
. "$(dirname "$0")/lib.sh"
program closed_poller.c
holds "$scratch/closed_poller" low /dev/null
for how in all reuse signals pipe asleep epoll; do
	: >"$scratch/file"
	run "$scratch/closed_poller" $how "$scratch/file"
	[ $status = 134 ] || { show; fail "$how: status $status"; }
	grep -q '^gmp: fatal: .* descriptors\? .* gone.*closefrom' "$scratch/err" ||
		{ show; fail "$how: no such line"; }
	[ ! -s "$scratch/file" ] ||
		fail "$how: $(wc -c <"$scratch/file") bytes were written to the file"
	grep -m 1 '^gmp: fatal' "$scratch/err" | cut -c 1-100
done
