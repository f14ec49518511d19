#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Tests that a program outside the project can use the tree that `cmake --install` makes.
#
#   check.sh BUILD_DIR CC CMAKE_GENERATOR
set -eu
export LC_ALL=C
build=$1 cc=$2 generator=$3
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

say() { echo "== $*"; }

# fail MESSAGE: prints it and the log, if there is one
fail() {
	[ -z "$1" ] || echo "$1"
	[ ! -e "$tmp/log" ] || cat "$tmp/log"
	exit 1
}

say install, and move the tree
DESTDIR='' cmake --install "$build" --prefix "$tmp/first" >"$tmp/log" || fail ''
mv "$tmp/first" "$tmp/prefix"
prefix=$tmp/prefix
libdir=$(dirname "$(find "$prefix" -name libgmprt.a)")
version=$(sed -n 's/^#define GMP_VERSION_[A-Z]* //p' "$prefix/include/gmprt/gmp/base.h" |
	paste -sd.)
for file in "$prefix/include/gmprt/gmp.h" "$libdir/libgmprt.so" "$libdir/libgmprt.so.0" \
	"$libdir/libgmprt.so.$version" "$libdir/pkgconfig/gmprt.pc" \
	"$libdir/libgmprtcheck.so" "$prefix/share/gmprt/gmp-gdb.py" \
	"$prefix/share/gmprt/gmp_lldb.py"; do
	[ -e "$file" ] || { echo "not installed: ${file#"$prefix"/}"; exit 1; }
done
if [ -e "$build/tools/gmp-trace" ]; then
	"$prefix/bin/gmp-trace" --version || fail "bin/gmp-trace is not installed"
	[ -e "$prefix/share/man/man1/gmp-trace.1" ] || fail "not installed: gmp-trace.1"
fi
if [ -e "$build/tools/gmp-top" ]; then
	"$prefix/bin/gmp-top" --version || fail "bin/gmp-top is not installed"
	[ -e "$prefix/share/man/man1/gmp-top.1" ] || fail "not installed: gmp-top.1"
fi
for name in base runtime green time chan sync io blocking key debug pool group singleflight; do
	[ -e "$prefix/include/gmprt/gmp/$name.h" ] || fail "not installed: gmp/$name.h"
done
[ ! -e "$prefix/include/gmp.h" ] || { echo "include/gmp.h hides GNU MP's"; exit 1; }

say each header alone
include=$prefix/include/gmprt
"$here/../headers/alone.sh" "$include" "$cc" "$(command -v c++ || true)"
echo '#include <gmp.h>' >"$tmp/only.c"
cat "$here/gnump.h" "$tmp/only.c" >"$tmp/both.c"
cat "$tmp/only.c" "$here/gnump.h" >"$tmp/both2.c"
for file in only both both2; do
	"$cc" -std=c11 -pedantic -Wall -Wextra -Werror -I"$include" -fsyntax-only "$tmp/$file.c"
done
if command -v c++ >/dev/null; then
	c++ -std=c++17 -pedantic -Wall -Wextra -Werror -I"$include" -fsyntax-only \
		-x c++ "$tmp/only.c"
else
	echo "no C++ compiler: skipped"
fi

say pkg-config
export PKG_CONFIG_PATH="$libdir/pkgconfig"
[ "$(pkg-config --modversion gmprt)" = "$version" ] ||
	{ echo "gmprt.pc has another version"; exit 1; }
# shellcheck disable=SC2046
"$cc" -o "$tmp/dynamic" "$here/scratch.c" $(pkg-config --cflags --libs gmprt)
LD_LIBRARY_PATH=$libdir "$tmp/dynamic"
case " $(pkg-config --cflags gmprt) " in
*" -fstack-clash-protection "*) ;;
*) echo "gmprt.pc lacks -fstack-clash-protection"; exit 1 ;;
esac
case $(pkg-config --define-variable=stack_clash= --cflags gmprt) in
*-fstack-clash-protection*) echo "gmprt.pc: stack_clash= does not remove the flag"; exit 1 ;;
esac
# shellcheck disable=SC2046
"$cc" -static -o "$tmp/static" "$here/scratch.c" $(pkg-config --static --cflags --libs gmprt)
"$tmp/static"

say pkg-config, a program that includes headers of subjects only
cat >"$tmp/subject.c" <<END
#include <gmp/chan.h>
#include <gmp/green.h>
#include <gmp/runtime.h>

static void send_one(void *c)
{
	int one = 1;

	gmp_chan_send((gmp_chan *)c, &one);
}

static void app(void *v)
{
	gmp_chan *c = gmp_chan_new(sizeof(int), 0);

	gmp_go(send_one, c);
	gmp_chan_recv(c, v);
	gmp_chan_free(c);
}

int main(void)
{
	int v = 0;

	return gmp_run(app, &v, NULL) || v != 1;
}
END
for compiler in "$cc -x c -std=c11" "c++ -x c++ -std=c++17"; do
	command -v "${compiler%% *}" >/dev/null || continue
	# shellcheck disable=SC2046,SC2086
	$compiler -o "$tmp/subject" "$tmp/subject.c" -x none $(pkg-config --cflags --libs gmprt)
	LD_LIBRARY_PATH=$libdir "$tmp/subject"
done

say pkg-config, with an rpath and without LD_LIBRARY_PATH
# shellcheck disable=SC2046
"$cc" -o "$tmp/rpath" "$here/scratch.c" $(pkg-config --cflags --libs gmprt) "-Wl,-rpath,$libdir"
"$tmp/rpath"

say pkg-config, libgmprtcheck
# shellcheck disable=SC2046
"$cc" -o "$tmp/checked" "$here/mutex.c" $(pkg-config --cflags --libs gmprtcheck) \
	"-Wl,-rpath,$libdir"
GMP_DEBUG=check "$tmp/checked" 2>"$tmp/log"
grep -q 'pthread mutex' "$tmp/log" || fail "libgmprtcheck reports nothing:"

if [ -e "$build/libgmprt_posix.so" ]; then
	say pkg-config, libgmprt_posix, and gmp-run
	[ -e "$libdir/libgmprt_posix.so.0" ] || fail "not installed: libgmprt_posix.so.0"
	"$cc" -Wall -Wextra -Werror -o "$tmp/threads" "$here/posix.c" -pthread
	"$tmp/threads" || fail "threads that sleep natively"
	# shellcheck disable=SC2046
	"$cc" -Wall -Wextra -Werror -DWITH_GMP -o "$tmp/posix" "$here/posix.c" \
		$(pkg-config --cflags --libs gmprt-posix) "-Wl,-rpath,$libdir"
	status=0
	"$tmp/posix" 2>"$tmp/log" || status=$?
	[ $status = 0 ] || grep -q 'is not supported here' "$tmp/log" ||
		fail "threads that sleep, linked with libgmprt_posix: status $status"
	status=0
	"$prefix/bin/gmp-run" "$tmp/threads" 2>"$tmp/log" || status=$?
	[ $status = 0 ] || grep -q 'is not supported here' "$tmp/log" ||
		fail "threads that sleep, under gmp-run: status $status"
fi

if [ -e "$build/libgmprt_uv.so" ]; then
	say pkg-config, libgmprt_uv
	[ -e "$prefix/include/gmprt/gmp_uv.h" ] || fail "not installed: gmp_uv.h"
	for compiler in "$cc -x c -std=gnu11" "c++ -x c++ -std=c++17"; do
		command -v "${compiler%% *}" >/dev/null || continue
		# shellcheck disable=SC2046,SC2086
		$compiler -Wall -Wextra -Werror -o "$tmp/uv" "$here/uv.c" -x none \
			$(pkg-config --cflags --libs gmprt-uv) "-Wl,-rpath,$libdir"
		"$tmp/uv"
	done
	# shellcheck disable=SC2046
	"$cc" -o "$tmp/uvloop" "$here/../../examples/uvloop.c" "$here/../../examples/server.c" \
		$(pkg-config --cflags --libs gmprt-uv)
fi

say the commands of examples/README.md that need no other library
cp -r "$here/../../examples" "$tmp/examples"
sed -n '/^```sh/,/^```/p' "$tmp/examples/README.md" | sed "/^\`/d; s|^cc |$cc |" >"$tmp/commands"
[ "$(grep -c -- ' -o ' "$tmp/commands")" -ge 10 ] ||
	{ echo "no commands in examples/README.md"; exit 1; }
(cd "$tmp/examples" && sh -e "$tmp/commands")

say CMake
mkdir "$tmp/project"
cp "$here/scratch.c" "$here/mutex.c" "$here/uv.c" "$tmp/project/"
cp "$here/project.cmake" "$tmp/project/CMakeLists.txt"
cmake -S "$tmp/project" -B "$tmp/project/build" -G "$generator" \
	-DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DCMAKE_PREFIX_PATH="$prefix" \
	-DWITH_UV="$([ -e "$build/libgmprt_uv.so" ] && echo ON || echo OFF)" \
	-DCMAKE_C_COMPILER="$cc" >"$tmp/log" || fail ''
cmake --build "$tmp/project/build" >"$tmp/log" || fail ''
"$tmp/project/build/shared"
"$tmp/project/build/static"
if [ -e "$build/libgmprt_uv.so" ]; then
	"$tmp/project/build/uv_shared"
	"$tmp/project/build/uv_static"
fi
for target in checked_gmprt checked_static; do
	GMP_DEBUG=check "$tmp/project/build/$target" 2>"$tmp/log"
	grep -q 'pthread mutex' "$tmp/log" || fail "$target: gmprt::check reports nothing:"
done
for target in shared static; do
	grep '"command"' "$tmp/project/build/compile_commands.json" | grep "/$target.dir/" |
		grep -q -e -fstack-clash-protection ||
		{ echo "$target lacks -fstack-clash-protection"; exit 1; }
done
if grep '"command"' "$tmp/project/build/compile_commands.json" | grep /without.dir/ |
	grep -q -e -fstack-clash-protection; then
	echo "GMPRT_NO_STACK_CLASH_PROTECTION does not remove the flag"
	exit 1
fi
