#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A hundred SIGSTOP and SIGCONT: interrupted system calls lose no data.
. "$(dirname "$0")/lib.sh"
program everything.c
for _ in 1 2 3 4 5; do
	"$scratch/everything" &
	pid=$!
	for _ in {1..20}; do
		kill -STOP $pid 2>/dev/null || break
		kill -CONT $pid 2>/dev/null || break
	done
	wait $pid || fail "status $?"
done
