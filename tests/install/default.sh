#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Tests which files a build without options compiles, and that GMP_LIBURING_INCLUDE is used.
#
#   default.sh SOURCE_DIR CC
set -eu
export LC_ALL=C
source=$1 cc=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER

mkdir "$tmp/include"
echo '/* only its presence matters */' >"$tmp/include/liburing.h"
cmake -G Ninja -S "$source" -B "$tmp/build" \
	-DCMAKE_C_COMPILER="$cc" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
	-DGMP_LIBURING_INCLUDE="$tmp/include" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
commands=$tmp/build/compile_commands.json
sed -n 's/^ *"file": "\(.*\)",*$/\1/p' "$commands" | sed "s|^$source/||" >"$tmp/files"
[ -s "$tmp/files" ] || { echo "no files in compile_commands.json"; exit 1; }
if grep -v '^src/\|^check/\|^posix/\|^tools/\|/build/proto/' "$tmp/files"; then
	echo "the default build compiles more than the libraries and the tools"
	exit 1
fi
grep 'uring_liburing[.]c' "$commands" | grep -q -- "$tmp/include" || {
	echo "GMP_LIBURING_INCLUDE is not in the include path of src/io/uring_liburing.c"
	exit 1
}
echo "$(wc -l <"$tmp/files") files"
