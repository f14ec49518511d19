#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Tests a program outside the project under ThreadSanitizer, with the library installed from a
# sanitized build: a data race between two green threads is reported, and gmp_mutex orders accesses.
#
#   tsan.sh BUILD_DIR CC
set -eu
export LC_ALL=C
build=$1 cc=$2
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail() {
	[ -z "$1" ] || echo "$1"
	cat "$tmp/log"
	exit 1
}

DESTDIR='' cmake --install "$build" --prefix "$tmp/prefix" >"$tmp/log" || fail ''
libdir=$(dirname "$(find "$tmp/prefix" -name libgmprt.so)")
export PKG_CONFIG_PATH="$libdir/pkgconfig"
for race in 0 1; do
	# shellcheck disable=SC2046
	"$cc" -g -DRACE=$race -o "$tmp/race$race" "$here/race.c" \
		$(pkg-config --cflags --libs gmprt) "-Wl,-rpath,$libdir"
done
"$tmp/race0"
if "$tmp/race1" 2>"$tmp/log"; then
	echo "the race is not reported"
	exit 1
fi
grep -q 'WARNING: ThreadSanitizer: data race' "$tmp/log" || fail ''
grep -q 'increment.*race[.]c' "$tmp/log" || fail "file and line are missing:"
grep -Eq "Thread T[0-9]+ 'green thread [0-9]+ counter'" "$tmp/log" || fail "the name is missing:"
grep -Eq "Thread T[0-9]+ 'green thread [0-9]+'" "$tmp/log" || fail "the id is missing:"
echo "reported"
