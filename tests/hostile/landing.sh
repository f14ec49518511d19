#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Built with GMP_IBT, the library has a landing pad wherever an indirect branch may arrive
# (docs/security.md), and runs.
. "$(dirname "$0")/lib.sh"
need_shared
[ "$(uname -m)" = x86_64 ] || skip "indirect branch tracking of x86-64"
for tool in cmake ninja python3 readelf; do
	command -v $tool >/dev/null || skip "no $tool"
done
grep -q '^GMP_IBT:BOOL=ON' "$build/CMakeCache.txt" && expected=0 || expected=1
run "$root/scripts/check-landing" "$build"
[ $status = $expected ] || { show; fail "check-landing: status $status instead of $expected"; }

build=$scratch/ibt
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Debug \
	-DCMAKE_C_FLAGS_DEBUG=-O1 -DGMP_IBT=ON -DGMP_TOOLS=OFF >"$scratch/out" 2>&1 ||
	{ show; fail "cmake"; }
ninja -j 2 -C "$build" gmprt gmprt_static >"$scratch/out" 2>&1 || { show; fail "ninja"; }
"$root/scripts/check-landing" "$build" || fail "landing pads"
program everything.c
holds "$scratch/everything"
