#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Does run.sh fail for a program that is not built, and if no program has run?  A launcher of this
# test refuses the call "known" of each program.
#
#   run_test.sh
set -eu
run=$(dirname "$0")/run.sh
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir "$tmp/tests"
printf '#!/bin/sh\necho "refused: known 1"\n' >"$tmp/tests/oldkernel"
printf '#!/bin/sh\n' >"$tmp/tests/unit_known"
chmod +x "$tmp"/tests/*
failed=0

# ends STATUS URING LINE...: run.sh must end with this status for a file with these lines.
ends() {
	local expected=$1 uring=$2 status=0
	shift 2
	printf '%s\n' 'without known' "$@" >"$tmp/file.txt"
	bash "$run" "$tmp" "$tmp/file.txt" "$uring" >"$tmp/out" 2>&1 || status=$?
	[ $status = $expected ] && return
	echo "FAILED: status $status instead of $expected: $*"
	cat "$tmp/out"
	failed=1
}

ends 0 none 'unit_known known'
ends 1 none 'unit_known other'
ends 1 none 'unit_known known' unit_absent
ends 0 none 'unit_known known' unit_uring
ends 1 liburing 'unit_known known' unit_uring
ends 1 none unit_uring
ends 1 none
exit $failed
