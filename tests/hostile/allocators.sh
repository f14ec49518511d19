#!/bin/bash
# SPDX-License-Identifier: MIT
#
# All parts of gmp work with a preloaded malloc: jemalloc, tcmalloc or mimalloc, if installed.
. "$(dirname "$0")/lib.sh"
need_shared
program everything.c
found=0
for lib in /usr/lib/*/libjemalloc.so.2 /usr/lib/*/libtcmalloc_minimal.so.4 \
	/usr/lib/*/libmimalloc.so.2*; do
	[ -e "$lib" ] || continue
	found=1
	for _ in 1 2 3; do
		holds LD_PRELOAD="$lib" "$scratch/everything"
	done
done
[ $found = 1 ] || skip "none is installed"
