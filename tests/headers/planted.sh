#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Does examples.py notice a broken example, in a page and in a header?
#
#   planted.sh PYTHON CC INCLUDE_DIR LIBRARY
set -eu
export LC_ALL=C
python=$1 cc=$2 include=$3 library=$4
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

seconds=20
run() {
	"$python" "$here/examples.py" --seconds $seconds "$cc" "" "$include" "$library" "$1" \
		>"$tmp/log" 2>&1
}

# page NAME, header NAME: the example on stdin as a page, or as a comment of a header
page() { { echo '```c'; cat; echo '```'; } >"$tmp/$1.md"; }
header() { { echo '/*'; echo ' * Example:'; sed 's/^/ *   /'; echo ' */'; } >"$tmp/$1.h"; }

# rejected FILE TEXT: the file must fail, and the reason contain the text
rejected() {
	if run "$tmp/$1"; then
		echo "$1 was accepted"
		exit 1
	fi
	grep -q "$2" "$tmp/log" || { echo "$1: no \"$2\" in"; cat "$tmp/log"; exit 1; }
}

for kind in page header; do
	suffix=md
	[ $kind = page ] || suffix=h
	echo 'static void app(void *arg) { (void)arg; }' | $kind good
	run "$tmp/good.$suffix" || { echo "a good $kind was refused:"; cat "$tmp/log"; exit 1; }
	echo 'static void app(void *arg) { gmp_no_such(arg); }' | $kind compile
	rejected compile.$suffix 'does not compile'
	echo 'static void app(void *arg) { int unused; (void)arg; }' | $kind warns
	rejected warns.$suffix 'does not compile'
	echo 'static void app(void *arg) { assert(arg); }' | $kind fails
	rejected fails.$suffix 'exit status'
	seconds=1
	echo 'static void app(void *arg) { for (;;) gmp_sleep(GMP_S), (void)arg; }' | $kind hangs
	rejected hangs.$suffix 'not over'
	seconds=20
done
echo 'int main(void) { return 0; }' >"$tmp/none.h"
rejected none.h 'at least 1'
echo "broken examples are noticed"
