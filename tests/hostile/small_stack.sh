#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gmp_run on a thread with a small stack (16 KiB or more) works or returns -ENOMEM, without a stack
# overflow.
. "$(dirname "$0")/lib.sh"
program small_stack.c
for setting in A=1 GMP_PROCS=1 GMP_PROCS=64 GMP_DEBUG=check GMP_DEBUG=chaos GMP_SCHED=global \
	GMP_SCHED=thread; do
	for size in 16 20 24 28 32 40 64; do
		if [ $size -lt 24 ]; then
			dies "less than 24 KiB of stack left" "$setting" \
				"$scratch/small_stack" $size
		elif [ $size -lt 32 ]; then
			run "$setting" "$scratch/small_stack" $size
			[ $status = 0 ] || grep -qF "24 KiB of stack" "$scratch/err" ||
				{ show; fail "$setting, $size KiB: status $status"; }
		else
			holds "$setting" "$scratch/small_stack" $size
		fi
		grep -q . "$scratch/out" || [ $status = 1 ] ||
			fail "$setting, $size KiB: nothing printed"
	done
	used=$(sed -n 's/.* \([0-9]*\) of .*/\1/p' "$scratch/out")
	[ "$used" -lt $((24 * 1024)) ] || { show; fail "$setting: $used bytes used"; }
	echo "$setting: $used bytes used"
done

# The main thread: the soft limit applies, and the stack also holds the environment. The commands of
# lib.sh need more than 16 KiB, so prlimit sets the limit only for the program.
program everything.c
for text in A $(printf %2000s | tr ' ' A); do
	dies "less than 24 KiB of stack left" -i A="$text" prlimit --stack=16384: \
		"$scratch/everything"
	[ $status = 1 ] || { show; fail "16 KiB: status $status"; }
	holds -i A="$text" prlimit --stack=65536: "$scratch/everything"
done
