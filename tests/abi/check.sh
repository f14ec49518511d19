#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Compares the exported symbols of the shared library and the global symbols of the archive with the
# declarations of the header and with symbols.txt.
#
#   check.sh LIBRARY ARCHIVE HEADER CC            compare
#   check.sh --update LIBRARY ARCHIVE HEADER CC   write symbols.txt
#
# With a last argument PREFIX: a library whose names begin with gmp_PREFIX_, and the list
# symbols_PREFIX.txt.
set -eu
export LC_ALL=C
update=0
[ "$1" != --update ] || { update=1; shift; }
library=$1 archive=$2 header=$3 cc=$4 prefix=gmp_${5:+$5_}
list=$(dirname "$0")/symbols${5:+_$5}.txt
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

nm -D --defined-only "$library" | awk '{ print $NF }' | sed 's/@.*//' | sort -u >"$tmp/exported"

# The exported declarations of the header, one per line; the name is the first before a "(".
"$cc" -E -P -x c "$header" | tr '\n' ' ' | tr ';{}' '\n\n\n' | grep 'visibility("default")' |
	sed 's/__attribute__((visibility("default")))//' |
	sed -n "s/^[^(]*[^a-z0-9_]\\($prefix[a-z0-9_]*\\) *(.*/\\1/p" | sort -u >"$tmp/declared"

[ -s "$tmp/declared" ] || { echo "$header: no declarations found"; exit 1; }
if [ $update = 1 ]; then
	cp "$tmp/exported" "$list"
	echo "wrote $(wc -l <"$list") symbols to $list"
fi

failed=0
none() {
	if [ -s "$2" ]; then
		echo "$1:"
		sed 's/^/  /' "$2"
		failed=1
	fi
}
grep -v "^$prefix[a-z0-9]" "$tmp/exported" >"$tmp/unprefixed" || true
none "exported, but not named $prefix..." "$tmp/unprefixed"
comm -13 "$tmp/exported" "$tmp/declared" >"$tmp/missing"
none "declared in the header, but not exported" "$tmp/missing"
comm -23 "$tmp/exported" "$tmp/declared" >"$tmp/hidden"
none "exported, but not declared in the header" "$tmp/hidden"
comm -13 "$tmp/exported" "$list" >"$tmp/gone"
none "in ${list##*/}, but no longer exported" "$tmp/gone"
comm -23 "$tmp/exported" "$list" >"$tmp/new"
none "exported, but not in ${list##*/} (./dev symbols writes it)" "$tmp/new"
nm -g --defined-only "$archive" | awk 'NF == 3 { print $3 }' | sort -u >"$tmp/globals"
comm -23 "$tmp/globals" "$list" >"$tmp/new"
none "global in the archive, but not in ${list##*/}" "$tmp/new"
comm -13 "$tmp/globals" "$list" >"$tmp/gone"
none "in ${list##*/}, but not in the archive" "$tmp/gone"
[ $failed = 1 ] || echo "$(wc -l <"$list") symbols"
exit $failed
