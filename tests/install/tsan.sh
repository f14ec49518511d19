#!/bin/sh
# SPDX-License-Identifier: MIT
#
# A program outside the project under ThreadSanitizer, with the library installed from a sanitized build:
# a data race between two green threads is reported, and synchronisation by gmp's calls is known.
#
#   tsan.sh BUILD_DIR CC
set -eu
export LC_ALL=C
build=$1 cc=$2
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

DESTDIR='' cmake --install "$build" --prefix "$tmp/prefix" >"$tmp/log" || { cat "$tmp/log"; exit 1; }
libdir=$(dirname "$(find "$tmp/prefix" -name libgmprt.so)")
export PKG_CONFIG_PATH="$libdir/pkgconfig"
for race in 0 1; do
	# shellcheck disable=SC2046
	"$cc" -g -DRACE=$race -o "$tmp/race$race" "$here/race.c" $(pkg-config --cflags --libs gmprt) \
		"-Wl,-rpath,$libdir"
done
"$tmp/race0"
if "$tmp/race1" 2>"$tmp/log"; then
	echo "the race is not reported"
	exit 1
fi
grep -q 'WARNING: ThreadSanitizer: data race' "$tmp/log" || { cat "$tmp/log"; exit 1; }
grep -q 'increment.*race[.]c' "$tmp/log" || { echo "without file and line:"; cat "$tmp/log"; exit 1; }
grep -Eq "Thread T[0-9]+ 'green thread [0-9]+ counter'" "$tmp/log" || { echo "without the name:"; cat "$tmp/log"; exit 1; }
grep -Eq "Thread T[0-9]+ 'green thread [0-9]+'" "$tmp/log" || { echo "without the number:"; cat "$tmp/log"; exit 1; }
echo "reported"
