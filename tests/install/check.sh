#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Can a program outside the project use what `cmake --install` puts in place?
#
#   check.sh BUILD_DIR CC CMAKE_GENERATOR
set -eu
export LC_ALL=C
build=$1 cc=$2 generator=$3
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

say() { echo "== $*"; }

say install, and move the tree
DESTDIR='' cmake --install "$build" --prefix "$tmp/first" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
mv "$tmp/first" "$tmp/prefix"
prefix=$tmp/prefix
libdir=$(dirname "$(find "$prefix" -name libgmprt.a)")
for file in "$prefix/include/gmprt/gmp.h" "$libdir/libgmprt.so" "$libdir/libgmprt.so.0" \
	"$libdir/libgmprt.so.0.1.0" "$libdir/pkgconfig/gmprt.pc" \
	"$libdir/libgmprtcheck.so" "$prefix/share/gmprt/gmp-gdb.py" \
	"$prefix/share/gmprt/gmp_lldb.py"; do
	[ -e "$file" ] || { echo "not installed: ${file#"$prefix"/}"; exit 1; }
done
[ ! -e "$prefix/include/gmp.h" ] || { echo "include/gmp.h hides GNU MP's"; exit 1; }

say the header alone
include=$prefix/include/gmprt
echo '#include <gmp.h>' >"$tmp/only.c"
cat "$here/gnump.h" "$tmp/only.c" >"$tmp/both.c"
cat "$tmp/only.c" "$here/gnump.h" >"$tmp/both2.c"
for file in only both both2; do
	"$cc" -std=c11 -pedantic -Wall -Wextra -Werror -I"$include" -fsyntax-only "$tmp/$file.c"
done
if command -v c++ >/dev/null; then
	c++ -std=c++17 -pedantic -Wall -Wextra -Werror -I"$include" -fsyntax-only -x c++ "$tmp/only.c"
else
	echo "no C++ compiler: not tried"
fi

say pkg-config
export PKG_CONFIG_PATH="$libdir/pkgconfig"
# shellcheck disable=SC2046
"$cc" -o "$tmp/dynamic" "$here/scratch.c" $(pkg-config --cflags --libs gmprt)
LD_LIBRARY_PATH=$libdir "$tmp/dynamic"
# shellcheck disable=SC2046
"$cc" -static -o "$tmp/static" "$here/scratch.c" $(pkg-config --static --cflags --libs gmprt)
"$tmp/static"

say CMake
mkdir "$tmp/project"
cp "$here/scratch.c" "$tmp/project/"
cp "$here/project.cmake" "$tmp/project/CMakeLists.txt"
cmake -S "$tmp/project" -B "$tmp/project/build" -G "$generator" \
	-DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
cmake --build "$tmp/project/build" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
"$tmp/project/build/shared"
"$tmp/project/build/static"
