#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A program that is linked with libgmprt before libgmprt_posix gets a line that says so, and in the
# other order none.
#
#   link_order.sh BUILD
set -euo pipefail
build=$1
source=$(cd "$(dirname "$0")/../.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cat >"$tmp/main.c" <<END
#include <gmp.h>

int main(void)
{
	return gmp_procs();
}
END
for order in "-lgmprt -lgmprt_posix" "-lgmprt_posix -lgmprt" -lgmprt_posix; do
	# shellcheck disable=SC2086
	${CC:-cc} -I"$source/include" -o "$tmp/main" "$tmp/main.c" -Wl,--no-as-needed -L"$build" \
		$order "-Wl,-rpath,$build"
	"$tmp/main" 2>"$tmp/err"
	wanted=0
	[ "$order" != "-lgmprt -lgmprt_posix" ] || wanted=1
	got=$(grep -c 'libgmprt comes before libgmprt_posix' "$tmp/err" || true)
	[ "$got" = $wanted ] || {
		echo "$order: $got lines instead of $wanted: $(cat "$tmp/err")"
		exit 1
	}
done
