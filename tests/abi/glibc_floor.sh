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
cmake -S "$source" -B "$build" -G Ninja -DCMAKE_C_COMPILER="$cc" -DGMP_GLIBC_FLOOR=ON \
	-DGMP_TOOLS=OFF -DGMP_WERROR=ON >"$build.log" 2>&1 &&
	cmake --build "$build" --target gmprt gmprtcheck >>"$build.log" 2>&1 ||
	{ tail -n 20 "$build.log"; exit 1; }
"$source/scripts/check-glibc-floor" "$build/libgmprt.so" "$build/libgmprtcheck.so"
if "$source/scripts/check-glibc-floor" --floor 2.2.5 "$build/libgmprt.so" >/dev/null; then
	echo "check-glibc-floor finds nothing above 2.2.5"
	exit 1
fi
# Before 2.30 a version is looked for only in the library that the reference names.
for file in libpthread.so.0 libdl.so.2; do
	readelf -VW "$build/libgmprt.so" | grep -q "File: $file" ||
		{ echo "no symbol of $file is required"; exit 1; }
done
"$cc" -std=gnu11 -O2 -fstack-clash-protection -I"$source/include" -o "$build/everything" \
	"$source/tests/hostile/everything.c" -L"$build" -lgmprt "-Wl,-rpath,$build" -pthread
timeout 60 "$build/everything"
