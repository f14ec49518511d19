#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Runs test programs on a kernel that lacks features (tests/oldkernel/launch.c).
#
#   run.sh BUILD_DIR NAME.txt URING
#
# URING is what the build has of io_uring: liburing or none.
# NAME.txt has one line "without RULE..." and then lines "PROGRAM [CALL...]". Each program must
# pass, and each call must have been refused at least once: otherwise the program would not test the
# fallback. A program that is not built is a failure, except unit_uring if URING is none.
set -eu
export LC_ALL=C
build=$1 uring=$3 rules= failed=0 ran=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
ulimit -c 0

one() {
	local program=$1 status=0
	shift
	if [ ! -x "$build/tests/$program" ]; then
		if [ $program = unit_uring ] && [ $uring = none ]; then
			echo "$program: not built"
		else
			echo "FAILED: $program is not built"
			failed=1
		fi
		return
	fi
	ran=$((ran + 1))
	CHECK_SCALE=10 timeout -k 5 100 "$build/tests/oldkernel" "$rules" "$build/tests/$program" \
		>"$scratch/out" 2>&1 || status=$?
	[ $status != 77 ] || { cat "$scratch/out"; exit 77; }
	if [ $status != 0 ]; then
		grep -v -e '^\[' -e '^GMP_SEED' "$scratch/out" | tail -n 30
		echo "FAILED: $program without $rules: status $status"
		failed=1
	fi
	for call; do
		grep -qE "^refused:.* $call [1-9]" "$scratch/out" && continue
		echo "FAILED: $program without $rules: $call was never refused"
		failed=1
	done
	echo "$program: $(grep '^refused:' "$scratch/out" | tail -n 1)"
}

while read -r program calls; do
	case $program in
	'' | '#'*) ;;
	without) rules=${calls// /,} ;;
	*) one $program $calls ;;
	esac
done <"$2"
[ $ran != 0 ] || { echo "FAILED: no program of $2 has run"; failed=1; }
exit $failed
