#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The library and the servers of examples/ are linked as docs/security.md says.
. "$(dirname "$0")/lib.sh"
need_shared
command -v readelf >/dev/null || skip "no readelf"

# has FILE WORD: checks that the ELF headers of the file contain the word.
has() { readelf -Wld "$1" | grep -q -- "$2" || fail "$(basename "$1"): no $2"; }

check() {
	has "$1" GNU_RELRO
	has "$1" 'BIND_NOW\|FLAGS.*NOW'
	readelf -Wl "$1" | grep GNU_STACK | grep -q ' RW ' ||
		fail "$(basename "$1"): the stack is executable"
}
check "$build/libgmprt.so"
has "$build/libgmprt.so" NODELETE
for file in libgmprt.so gmprt.o; do # glibc must not enable shadow stacks for it
	! readelf -Wn "$build/$file" | grep -q SHSTK || fail "$file has the note SHSTK"
done
checked=0
for name in httpd kvserver proxy echo; do
	program=$build/examples/$name
	[ -x "$program" ] || continue
	check "$program"
	readelf -Wh "$program" | grep -q 'Type: *DYN' || fail "$name: not position-independent"
	nm "$program" | grep -q __stack_chk_fail || fail "$name: without a stack protector"
	checked=$((checked + 1))
done
echo "$checked programs"
