#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A library that is built with GMP_GLIBC_FLOOR requires no symbol version above GLIBC_2.28, names
# the libraries that have these symbols there, and works with the installed glibc.
#
#   glibc_floor.sh SOURCE_DIR BUILD_DIR CC
set -eu
source=$1 build=$2/glibc_floor_test cc=$3
rm -rf "$build"
# More optimization and debug information would take twice the time. They add and remove calls of
# memcpy, memmove and __strcpy_chk only, which are older than the floor.
object='<CMAKE_C_COMPILER> <DEFINES> <INCLUDES> <FLAGS> -O1 -g0 -o <OBJECT> -c <SOURCE>'
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DGMP_GLIBC_FLOOR=ON \
	-DGMP_TOOLS=OFF -DGMP_WERROR=ON "-DCMAKE_C_COMPILE_OBJECT=$object" >"$build.log" 2>&1 &&
	cmake --build "$build" --target gmprt gmprtcheck >>"$build.log" 2>&1 ||
	{ tail -n 20 "$build.log"; exit 1; }
"$source/scripts/check-glibc-floor" "$build/libgmprt.so" "$build/libgmprtcheck.so"
if "$source/scripts/check-glibc-floor" --floor 2.2.5 "$build/libgmprt.so" >/dev/null; then
	echo "check-glibc-floor finds nothing above 2.2.5"
	exit 1
fi
# planted VERSION: a library that requires this version, which a stub of libc.so.6 has.
planted() {
	echo "$1 { planted; };" >"$build/stub.map"
	echo 'void planted(void) {}' | "$cc" -xc - -shared -fPIC -nostdlib -Wl,-soname,libc.so.6 \
		"-Wl,--version-script,$build/stub.map" -o "$build/stub.so"
	echo 'void planted(void); void f(void) { planted(); }' |
		"$cc" -xc - -xnone -shared -fPIC -nostdlib "$build/stub.so" -o "$build/planted.so"
}

# refuses STATUS FILE: check-glibc-floor must end with this status.
refuses() {
	local status=0
	"$source/scripts/check-glibc-floor" "$2" >/dev/null 2>&1 || status=$?
	[ $status = $1 ] || { echo "check-glibc-floor: status $status instead of $1: $2"; exit 1; }
}

planted GLIBC_2.28
refuses 0 "$build/planted.so"
for version in GLIBC_2.29 GLIBC_2.100 GLIBC_PRIVATE GLIBC_ABI_PLANTED; do
	planted $version
	refuses 1 "$build/planted.so"
done
planted OTHER_2.1
refuses 2 "$build/planted.so"
echo 'int f(void);' | "$cc" -xc - -c -o "$build/planted.o"
refuses 2 "$build/planted.o"
refuses 2 "$source/README.md"
# Relative relocations in the packed form need a version that no symbol has.
echo 'extern int puts(const char *); int (*p[2])(const char *) = {puts}; int **q = (int **)p;' |
	"$cc" -xc - -shared -fPIC -Wl,-z,pack-relative-relocs -o "$build/planted.so" 2>/dev/null
if readelf -VW "$build/planted.so" | grep -q GLIBC_ABI_DT_RELR; then
	refuses 1 "$build/planted.so"
fi
# Before 2.30 a version is looked for only in the library that the reference names.
for file in libpthread.so.0 libdl.so.2; do
	readelf -VW "$build/libgmprt.so" | grep -q "File: $file" ||
		{ echo "no symbol of $file is required"; exit 1; }
done
"$cc" -std=gnu11 -O2 -fstack-clash-protection -I"$source/include" -o "$build/everything" \
	"$source/tests/hostile/everything.c" -L"$build" -lgmprt "-Wl,-rpath,$build" -pthread
timeout 60 "$build/everything"
