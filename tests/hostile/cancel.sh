#!/bin/bash
# SPDX-License-Identifier: MIT
#
# pthread_cancel of an OS thread inside a call of gmp: the call returns, and no reference to the
# runtime is left.
. "$(dirname "$0")/lib.sh"
program cancel.c

# Not called, each with its reason.
cat >"$scratch/not_called" <<'END'
gmp_exit              ends a green thread
gmp_lock_thread       locks a green thread
gmp_unlock_thread     locks a green thread
gmp_cond_wait         among the waits of cancel.c
END
"$scratch/cancel" names >"$scratch/names"
awk '{ print $1 }' "$scratch/not_called" >>"$scratch/names"
sort -u "$scratch/names" | comm -3 - <(sort "$root/tests/abi/symbols.txt") >"$scratch/odd"
[ ! -s "$scratch/odd" ] ||
	fail "neither called nor left out, or unknown: $(tr '\n' ' ' <"$scratch/odd")"

for setting in A=1 GMP_PROCS=1 GMP_DEBUG=check; do
	rm -f "$scratch/file" "$scratch/file.fifo"
	holds "$setting" "$scratch/cancel" "$scratch/file"
done
