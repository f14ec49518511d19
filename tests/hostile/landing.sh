#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Built with GMP_IBT, the library has a landing pad wherever an indirect branch may arrive
# (docs/security.md), and runs.
#
#   LTO_BUILD   a build of lto.sh, whose flags ask for GMP_IBT; without it, one is made here
. "$(dirname "$0")/lib.sh"
need_shared
[ "$(uname -m)" = x86_64 ] || skip "indirect branch tracking of x86-64"
for tool in cmake ninja python3 readelf; do
	command -v $tool >/dev/null || skip "no $tool"
done
grep -q '^GMP_IBT:BOOL=ON' "$build/CMakeCache.txt" && expected=0 || expected=1
run "$root/scripts/check-landing" "$build"
[ $status = $expected ] || { show; fail "check-landing: status $status instead of $expected"; }

# planted FLAG...: builds landing.S with these flags and checks it; sets $status.
planted() {
	mkdir -p "$scratch/planted"
	"$cc" -c "$@" -o "$scratch/planted/gmprt.o" "$here/landing.S" ||
		fail "landing.S does not compile"
	"$cc" -shared -nostdlib "$@" -o "$scratch/planted/libgmprt.so" "$scratch/planted/gmprt.o" ||
		fail "landing.S cannot be linked"
	run "$root/scripts/check-landing" "$scratch/planted"
}

# finds TEXT [COUNT]: check-landing has found this, and COUNT faults in all (1).
finds() {
	[ $status = 1 ] && grep -qF -- "$1" "$scratch/out" &&
		grep -q ": ${2:-1} findings\$" "$scratch/out" ||
		{ show; fail "check-landing does not find: $1"; }
}

planted
[ $status = 0 ] || { show; fail "check-landing refuses landing.S"; }
planted -DPLANT_RETURN
finds 'gmp__gogo: 0 jumps with notrack'
planted -DPLANT_TRACKED
finds 'without notrack' 2
planted -DPLANT_TWO
finds 'gmp__gogo: 2 jumps with notrack'
for plant in SECOND REGISTER CHANGED NO_BASE; do
	planted -DPLANT_$plant
	finds 'without a table'
done
planted -DPLANT_POINTER
finds 'inner (in a relocation): no endbr64'
planted -DPLANT_POINTER -Wl,-z,pack-relative-relocs
if readelf -WS "$scratch/planted/libgmprt.so" | grep -qF .relr.dyn; then # ld 2.38
	finds 'inner (in a packed relocation): no endbr64'
fi

if [ -e "${LTO_BUILD:-}/libgmprt.a" ]; then
	build=$LTO_BUILD
	grep -q '^GMP_IBT:BOOL=ON' "$build/CMakeCache.txt" || fail "lto.sh builds without GMP_IBT"
else
	build=$scratch/ibt
	cmake -S "$root" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DCMAKE_BUILD_TYPE=Debug \
		-DCMAKE_C_FLAGS_DEBUG=-O1 -DGMP_IBT=ON -DGMP_TOOLS=OFF >"$scratch/out" 2>&1 ||
		{ show; fail "cmake"; }
	ninja -j 2 -C "$build" gmprt gmprt_static >"$scratch/out" 2>&1 || { show; fail "ninja"; }
fi
"$root/scripts/check-landing" "$build" || fail "landing pads"
program everything.c
holds "$scratch/everything"
