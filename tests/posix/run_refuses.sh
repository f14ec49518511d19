#!/bin/bash
# SPDX-License-Identifier: MIT
#
# gmp-run refuses what it cannot run, with a message and a status of its own.
#
#   run_refuses.sh BUILD
set -euo pipefail
build=$1
run=$build/tools/gmp-run
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# refuses STATUS TEXT ARGUMENT...
refuses() {
	local status=0 wanted=$1 text=$2
	shift 2
	"$run" "$@" >"$tmp/out" 2>&1 || status=$?
	if [ "$status" != "$wanted" ] || ! grep -q -- "$text" "$tmp/out"; then
		echo "gmp-run $*: status $status, wanted $wanted and \"$text\":"
		cat "$tmp/out"
		exit 1
	fi
}
refuses 2 'no program'
refuses 2 'unknown option' --unknown true
refuses 2 'a number' --procs 0 true
refuses 2 'a number' --procs x true
refuses 127 'not found' no-such-program-anywhere
refuses 127 'No such file' ./no-such-program-anywhere
refuses 126 'not a file' /usr
echo text >"$tmp/text"
refuses 126 'Permission denied' "$tmp/text"
chmod 755 "$tmp/text"
refuses 126 'neither an ELF file' "$tmp/text"
printf '#!/no/such/interpreter\n' >"$tmp/script"
chmod 755 "$tmp/script"
refuses 126 'No such file' "$tmp/script"
# the machine of an ELF file is a half word at 18
cp "$run" "$tmp/other"
printf '\003\000' | dd of="$tmp/other" bs=1 seek=18 conv=notrunc status=none
refuses 126 'another machine' "$tmp/other"
sed 's,/ld-linux-,/ld-other-,' "$run" >"$tmp/libc"
chmod 755 "$tmp/libc"
refuses 126 'another libc' "$tmp/libc"
echo 'int main(void) { return 0; }' >"$tmp/static.c"
if "${CC:-cc}" -static -o "$tmp/static" "$tmp/static.c" 2>/dev/null; then
	refuses 126 'statically' "$tmp/static"
fi
"${CC:-cc}" -o "$tmp/dynamic" "$tmp/static.c"
if "${CC:-cc}" -z execstack -o "$tmp/stack" "$tmp/static.c" 2>/dev/null; then
	refuses 126 'stack that can be executed' "$tmp/stack"
fi
# A program with a sanitizer, as gcc and as clang link it; also as a child, in which
# AddressSanitizer of gcc ends the program before, and a program with such a library.
echo 'int f(void); int f(void) { return 0; }' >"$tmp/library.c"
echo 'int f(void); int main(void) { return f(); }' >"$tmp/caller.c"
for cc in gcc clang; do
	for sanitizer in thread address memory; do
		program=$tmp/$cc-$sanitizer
		"$cc" -fsanitize=$sanitizer -o "$program" "$tmp/static.c" 2>/dev/null || continue
		refuses 126 "is built with [A-Z][a-z]*Sanitizer" "$program"
		[ $cc-$sanitizer = gcc-address ] ||
			refuses 126 "is built with [A-Z][a-z]*Sanitizer" sh -c "$program"
		"$run" --no-children sh -c "$program"
	done
done
if gcc -fsanitize=thread -shared -fPIC -o "$tmp/library.so" "$tmp/library.c" 2>/dev/null; then
	gcc -o "$tmp/caller" "$tmp/caller.c" "$tmp/library.so" 2>/dev/null
	refuses 126 "a library of it is built with ThreadSanitizer" "$tmp/caller"
fi
GMP_PROCS=abc refuses 126 'GMP_PROCS: "abc" is refused' true
if type -P valgrind >/dev/null; then
	refuses 126 'Valgrind runs the program' valgrind -q "$tmp/dynamic"
fi
if [ "$(id -u)" = 0 ]; then
	cp "$(type -P true)" "$tmp/setuid"
	chown 65534 "$tmp/setuid"
	chmod 4755 "$tmp/setuid"
	refuses 126 'set-user-ID' "$tmp/setuid"
fi
"$run" --help | grep -q '^Usage: gmp-run'
"$run" --version | grep -q '^gmp-run [0-9]'
printf '#! /bin/sh\necho works $1\n' >"$tmp/script"
[ "$("$run" --no-children "$tmp/script" 1)" = 'works 1' ]
[ "$(PATH=$tmp:$PATH "$run" -- script 2)" = 'works 2' ]
