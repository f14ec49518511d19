#!/bin/bash
# SPDX-License-Identifier: MIT
#
# All parts of gmp work with closed standard file descriptors.
. "$(dirname "$0")/lib.sh"
program everything.c
for closed in '' '<&-' '>&-' '2>&-' '<&- >&- 2>&-'; do
	status=0
	eval "timeout 30 $scratch/everything $closed" || status=$?
	[ $status = 0 ] || fail "with $closed: status $status"
done
