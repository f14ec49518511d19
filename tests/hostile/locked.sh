#!/bin/bash
# SPDX-License-Identifier: MIT
#
# In a process that locks its memory by mlockall, a run costs a few MiB, not its address space.
# Under a RLIMIT_MEMLOCK of 8 MiB an unprivileged user gets some stacks, and then -ENOMEM with a
# message.
. "$(dirname "$0")/lib.sh"
program locked.c
user=65534

# figure NAME LINE: prints the number after NAME in the line of the output that begins with LINE.
figure() { sed -n "s/^$2.* $1 \(-*[0-9]*\).*/\1/p" "$scratch/out"; }

# at_most LINE KIB: checks the resident memory in that line of the output.
at_most() {
	local rss
	rss=$(figure rss "$1")
	[ "${rss:-0}" -gt 0 ] && [ "$rss" -le "$2" ] ||
		{ show; fail "$1: $rss KiB are resident, more than $2"; }
}

# A memory cgroup of 256 MiB, if available: the kernel kills a populated run in it.
group=
if [ "$(id -u)" = 0 ]; then
	for parent in /sys/fs/cgroup /sys/fs/cgroup/memory; do
		[ -e "$parent/cgroup.procs" ] && mkdir "$parent/gmp-locked.$$" 2>/dev/null ||
			continue
		for limit in memory.max memory.limit_in_bytes; do
			echo 268435456 2>/dev/null >"$parent/gmp-locked.$$/$limit" &&
				group=$parent/gmp-locked.$$ || :
		done
		[ -n "$group" ] && break
		rmdir "$parent/gmp-locked.$$"
	done
fi
[ -z "$group" ] || trap 'rmdir "$group"; rm -rf "$scratch"' EXIT
in_group() {
	run bash -c '[ -z "$1" ] || echo $$ >"$1/cgroup.procs"; shift; exec "$@"' - "$group" \
		"$scratch/locked" "$@"
}

if [ "$(id -u)" = 0 ]; then
	# Without the cgroup, a populated run would fill the memory: first try as an unprivileged
	# user.
	run "$scratch/locked" full 1 $user
	[ $status = 0 ] || { show; fail "one green thread, unprivileged: status $status"; }
	for mode in full fault middle; do
		[ $mode != middle ] || "$scratch/locked" guards || continue
		for n in 1 1000; do
			in_group $mode $n
			[ $status = 0 ] || { show; fail "$mode, $n green threads: status $status"; }
			at_most threads $((16384 + n * 16))
			at_most afterwards $((16384 + n * 16))
			# light guards split no mapping: 1000 stacks would have 2000 more
			! "$scratch/locked" guards || [ "$(figure maps threads)" -lt 500 ] ||
				{ show; fail "$mode, $n green threads: too many mappings"; }
			echo "$mode: $(head -n 1 "$scratch/out")"
		done
	done
	in_group overflow 1
	grep -qF "stack overflow in green thread" "$scratch/err" ||
		{ show; fail "the overflow is not reported"; }
fi

# An unprivileged user with 8 MiB.
ulimit -l 8192 2>/dev/null || skip "RLIMIT_MEMLOCK cannot be set"
[ "$(id -u)" != 0 ] || as=$user
for size in 64k 256k; do
	for mode in full fault; do
		run GMP_PROCS=2 GMP_STACK_SIZE=$size "$scratch/locked" $mode 0 ${as:-}
		[ $status != 3 ] || skip "the program alone exceeds RLIMIT_MEMLOCK"
		[ $status = 0 ] || { show; fail "$mode, stacks of $size: status $status"; }
		grep -qF "RLIMIT_MEMLOCK is used up" "$scratch/err" || { show; fail "no message"; }
		n=$(sed -n "s/^threads \([0-9]*\).*/\1/p" "$scratch/out")
		[ "$n" -ge 3 ] || { show; fail "$mode, stacks of $size: only $n green threads"; }
		echo "8 MiB, stacks of $size, $mode: $n green threads"
	done
done
run GMP_STACK_SIZE=16m "$scratch/locked" full 1 ${as:-}
[ $status = 1 ] && grep -qF "RLIMIT_MEMLOCK is used up" "$scratch/err" ||
	{ show; fail "16 MiB: status $status"; }
