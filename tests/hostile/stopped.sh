#!/bin/bash
# SPDX-License-Identifier: MIT
#
# SIGSTOP and SIGCONT, a hundred times: system calls that return EINTR lose nothing.
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
