#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Can each public header be included alone, in C11 and in C++17, and is each function documented?
#
#   alone.sh INCLUDE_DIR CC [CXX]
set -eu
export LC_ALL=C
include=$1 cc=$2 cxx=${3:-}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

fail() {
	echo "$*"
	failed=1
}

# compile FILE: as C11 and C++17, without a warning
compile() {
	"$cc" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$include" -fsyntax-only "$1" ||
		fail "$1 is not clean C11"
	[ -z "$cxx" ] ||
		"$cxx" -std=c++17 -Wall -Wextra -Wpedantic -Werror -I"$include" -fsyntax-only \
			-x c++ "$1" ||
		fail "$1 is not clean C++17"
}

headers=$(cd "$include" && ls gmp.h gmp/*.h)
[ "$(echo "$headers" | wc -l)" -ge 13 ] ||
	fail "$include does not have one header per subject"
for header in $headers; do
	name=$(echo "$header" | tr '/.' '__')
	printf '#include <%s>\n#include <%s>\nextern int planted;\n' "$header" "$header" \
		>"$tmp/$name.c"
	compile "$tmp/$name.c"
	# GNU MP's guards: __GMP_H__, __GNU_MP__
	guard=$(sed -n 's/^#ifndef //p' "$include/$header" | head -n 1)
	case $guard in GMPRT_*_H) ;; *) fail "$header: guard $guard" ;; esac
	[ "$(cat "$include"/gmp.h "$include"/gmp/*.h | grep -c "^#ifndef $guard\$")" = 1 ] ||
		fail "$header: another header has the guard $guard"
	[ "$header" = gmp.h ] || grep -qF "#include \"$header\"" "$include/gmp.h" ||
		fail "$header is not included by gmp.h"
done
# in the opposite order, and after a header of libc that gmp includes
{ echo '#include <errno.h>'; echo "$headers" | sort -r | sed 's/.*/#include <&>/'; } >"$tmp/all.c"
compile "$tmp/all.c"

# a comment "name - summary" directly above each function
for header in $headers; do
	awk -v header="$header" '
	/^\/\*/ { comment = "" }
	{ comment = comment $0 "\n" }
	/^GMP_API/ {
		name = $0
		sub(/\(.*/, "", name)
		sub(/.*[ *]/, "", name)
		if (before !~ /^ \*\/$/ || index(comment, "\n * " name " - ") == 0) {
			print header ": no comment \"" name " - ...\" directly above the function"
			failed = 1
		}
		comment = ""
	}
	{
		before = $0
		width = $0
		gsub(/\t/, "        ", width) # tabs are at the beginning of lines only
		if (length(width) > 100) {
			print header ":" FNR ": more than 100 columns"
			failed = 1
		}
	}
	END { exit failed }' "$include/$header" || failed=1
done
[ $failed = 1 ] || echo "$(echo "$headers" | wc -l) headers"
exit $failed
