#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Small resource limits: all parts of gmp work, or the program ends with an error message.
. "$(dirname "$0")/lib.sh"
program everything.c

# with ULIMIT-ARGS...: exits with 0, or with 1 after a line on stderr.
with() {
	status=0
	(ulimit "$@" && exec timeout -k 5 30 "$scratch/everything") \
		>"$scratch/out" 2>"$scratch/err" || status=$?
	case $status in
	0) ;;
	127) ;; # the dynamic linker ran into the limit
	1) [ -s "$scratch/err" ] || fail "ulimit $*: status 1 without a message" ;;
	*) show; fail "ulimit $*: status $status" ;;
	esac
	echo "ulimit $*: status $status $(head -n 1 "$scratch/err")"
}

for n in 4 5 6 8 12 16 64; do
	with -n $n
done
for kib in 100000 300000 1000000 4000000 16000000; do
	with -v $kib
done
for kib in 64 256 1024; do
	with -s $kib
done
with -i 0
with -q 0
