#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Own thread-locals work in programs that are compiled with each level of optimization and with
# -flto, with libraries that are loaded and unloaded while green threads have their blocks.  A
# static program gets -ENOTSUP.
. "$(dirname "$0")/lib.sh"
for kind in STATIC DYNAMIC; do
	"$cc" -shared -fPIC -O2 -D$kind -o "$scratch/$kind.so" "$here/owntls_lib.c" ||
		fail "owntls_lib.c does not compile"
done

program owntls.c
if [ "$link" != shared ]; then
	dies "GMP_OWN_TLS is not supported here" "$scratch/owntls" exit
	grep -q 'the program is linked statically' "$scratch/err" ||
		fail "the line does not say that the program is static"
	grep -q 'owntls: line' "$scratch/err" || fail "a static program has own thread-locals"
	run "$scratch/owntls" -
	grep -qx -- "-95" "$scratch/out" || fail "gmp_run of a static program is not -ENOTSUP"
	exit 0
fi
run "$scratch/owntls" -
! grep -qx -- "-95" "$scratch/out" || skip "$(cat "$scratch/err")"
[ $status = 7 ] || { show; fail "status $status"; }
program owntls.c -DLARGE=1000000
run "$scratch/owntls" exit
[ $status = 7 ] || { show; fail "1 MB of thread-locals: status $status"; }

lto=-flto
echo 'int main(void) { return 0; }' >"$scratch/probe.c"
"$cc" -flto -o "$scratch/probe" "$scratch/probe.c" 2>/dev/null || lto=
for flags in -O0 -O2 -O3 "-O3 $lto"; do
	program owntls.c $flags
	for procs in 1 2 4; do
		for kind in STATIC DYNAMIC; do
			holds GMP_PROCS=$procs "$scratch/owntls" "$scratch/$kind.so"
			grep -qx ok "$scratch/out" || { show; fail "$kind with $flags"; }
		done
	done
	run "$scratch/owntls" exit
	[ $status = 7 ] || { show; fail "exit in a green thread: status $status"; }
done
