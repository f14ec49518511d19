#!/bin/bash
# SPDX-License-Identifier: MIT
#
# libgmprt_posix exports gmp_..., as libgmprt does, and the functions of posix/call/calls.def, no
# more and no less; and it imports none of these, so the runtime does not enter its replacements.
#
#   posix.sh LIBRARY LIBGMPRT CALLS
set -euo pipefail
export LC_ALL=C
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
symbols() { nm -D "$1" "$2" | awk '{ print $NF }' | sed 's/@.*//' | sort -u; }
symbols --defined-only "$1" >"$tmp/exported"
symbols --undefined-only "$1" >"$tmp/imported"
{
	symbols --defined-only "$2"
	sed -nE 's/^CALL(_V)?\(([A-Za-z0-9_]+).*/\2/p' "$3"
} | sort -u >"$tmp/wanted"
diff "$tmp/wanted" "$tmp/exported" >"$tmp/diff" || {
	echo "wanted (<) and exported (>) symbols differ:"
	cat "$tmp/diff"
	exit 1
}
if comm -12 "$tmp/wanted" "$tmp/imported" | grep .; then
	echo "these are imported: the runtime would enter its replacements"
	exit 1
fi
