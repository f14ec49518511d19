#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A program loads and unloads gmp many times, also as two plugins with a copy of gmp each, whose
# runs overlap in every order: no signal handler and no destructor points into unloaded code.
. "$(dirname "$0")/lib.sh"
need_shared
"$cc" -std=gnu11 -O2 -Wall -Wextra -I"$root/include" -o "$scratch/dlopen" "$here/dlopen.c" \
	-pthread -ldl ||
	fail "dlopen.c does not compile"
holds "$scratch/dlopen" cycles "$build/libgmprt.so"

for p in a b; do
	"$cc" -shared -fPIC -fvisibility=hidden -Wl,-z,nodelete -I"$root/include" \
		-o "$scratch/$p.so" "$here/plugin.c" "$build/libgmprt.a" -pthread ||
		fail "plugin.c does not compile"
done
for order in AaBb ABab ABba AaABab ABabABba ABaAba ABbBab; do
	run "$scratch/dlopen" order "$scratch/a.so" "$scratch/b.so" $order
	[ $status = 42 ] ||
		{ show; fail "$order: the program's handler is not called: status $status"; }
	for debug in none=0 GMP_DEBUG=sched,quit; do
		run $debug "$scratch/dlopen" default "$scratch/a.so" "$scratch/b.so" $order
		[ $status = 139 ] ||
			{ show; fail "$order, $debug: status $status in place of SIGSEGV"; }
	done
done
