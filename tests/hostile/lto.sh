#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gmp builds with the CFLAGS and LDFLAGS of distributions, including -flto. The link of the floors
# still rejects an upward call, and programs that are compiled with these flags work.
#
#   LTO_BUILD   a folder for the build, which stays there (landing.sh uses it)
. "$(dirname "$0")/lib.sh"
need_shared # both libraries are built here
command -v ninja >/dev/null || skip "no ninja"
flags="-O2 -flto -fexceptions -fstack-protector-strong -fcf-protection -Wp,-D_FORTIFY_SOURCE=2"
ld="-flto -Wl,-z,relro -Wl,-z,now -Wl,--as-needed"
echo 'int main(void) { return 0; }' >"$scratch/probe.c"
# clang needs a linker that reads its bitcode
for with in "" -fuse-ld=lld none; do
	[ "$with" != none ] || skip "$cc -flto does not link here"
	! "$cc" $flags $ld $with -o "$scratch/probe" "$scratch/probe.c" 2>/dev/null || break
done
ld="$ld $with"

lto=${LTO_BUILD:-$scratch/lto}
rm -rf "$lto"
mkdir "$scratch/src"
tar -C "$root" --exclude=./build --exclude=./.git -cf - . | tar -C "$scratch/src" -xf -
configure() {
	env CC="$cc" CFLAGS="$flags" LDFLAGS="$ld" cmake -S "$scratch/src" -B "$lto" \
		-G Ninja -DCMAKE_INTERPROCEDURAL_OPTIMIZATION=$1 -DGMP_TESTS=ON ||
		fail "cmake"
}
make() { ninja -C "$lto" "$@"; }
floors=$(echo floor_link_{0..6})
for ipo in OFF ON; do
	configure $ipo >"$scratch/log" 2>&1
	make $floors gmprt gmprt_static >"$scratch/log" 2>&1 ||
		{ tail -n 30 "$scratch/log"; fail "with $flags, IPO $ipo: it does not build"; }
	build=$lto
	for link in shared static; do
		program everything.c $flags $ld
		holds "$scratch/everything"
	done
done

# A call from floor 2 into floor 3.
printf '%s\n' '#include <gmp.h>' 'void *planted(void);' \
	'void *planted(void) { return (void *)gmp_yield; }' >>"$scratch/src/src/proc.c"
! make floor_link_2 >"$scratch/log" 2>&1 || fail "an upward call is not noticed"
grep -q "undefined.*gmp_yield" "$scratch/log" ||
	{ tail -n 20 "$scratch/log"; fail "not an undefined symbol"; }
