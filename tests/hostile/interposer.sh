#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A preloaded library replaces libc's functions (interposer.c):
#   - waits last as long as they must, whatever time libc's clocks show, also under libfaketime
#   - while green threads run, wait and wake each other, the runtime calls no function of libc but
#     the classes wait and thread of interposer.txt; the file lists all that it calls
#   - without each of the functions that a library might refuse, the runtime works
. "$(dirname "$0")/lib.sh"
need_shared
case $(uname -m) in x86_64 | aarch64) ;; *) skip "no stubs for this machine" ;; esac
if nm "$build/libgmprt.so" | grep -qE '__([at]|ub)san_|__gcov_'; then
	skip "a sanitizer or gcov calls libc"
fi

# What the runtime calls of libc, and the lines of interposer.txt.
nm -D --undefined-only "$build/libgmprt.so" |
	awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | sort -u >"$scratch/called"
listed() {
	sed -nE "s/^([^# ]+)( .*)? $1( .*)?\$/\1/p" "$here/interposer.txt" | sort -u
}
# Of fortified builds, and of newer versions of C: __snprintf_chk, __isoc23_strtol.
plain() {
	sed -E 's/^__(.*)_chk$/\1/; s/^__isoc[0-9]+_//' | sort -u
}
plain <"$scratch/called" | comm -23 - <(listed '.*') >"$scratch/unlisted"
[ ! -s "$scratch/unlisted" ] ||
	fail "not in interposer.txt: $(tr '\n' ' ' <"$scratch/unlisted")"

# The stubs: of all functions that the runtime calls but those without a stub.
comm -23 "$scratch/called" <({ listed data; listed memory; } | sort) |
	grep -vxE 'clock_gettime|syscall|__.*_chk|__isoc.*' |
	sed 's/.*/JUMP(&)/' >"$scratch/names.h"
"$cc" -std=gnu11 -O2 -g -Wall -Wextra -fno-builtin -shared -fPIC -I"$scratch" -Wl,-z,initfirst \
	-o "$scratch/interposer.so" "$here/interposer.c" || fail "interposer.c does not compile"
program interposed.c
program everything.c
preload=LD_PRELOAD=$scratch/interposer.so
for clock in ahead stopped; do
	holds $preload INTERPOSER_CLOCK=$clock "$scratch/interposed"
	holds $preload INTERPOSER_CLOCK=$clock "$scratch/everything"
done
# In a slice of an hour: at the end of one sysmon reads from /proc whether the thread sleeps.
holds $preload GMP_PREEMPT=3600s "$scratch/interposed"
awk '{ print $1 }' "$scratch/out" | sort >"$scratch/steady"
comm -23 "$scratch/steady" <({ listed wait; listed thread; } | sort) >"$scratch/unlisted"
[ ! -s "$scratch/unlisted" ] ||
	fail "called while green threads run: $(tr '\n' ' ' <"$scratch/unlisted")"
for name in $(listed refuse); do
	grep -qx "JUMP($name)" "$scratch/names.h" || continue
	holds $preload INTERPOSER_FAIL=$name "$scratch/everything"
	holds $preload INTERPOSER_FAIL=$name "$scratch/interposed"
done
for lib in /usr/lib/*/faketime/libfaketimeMT.so.1; do
	[ -e "$lib" ] || continue
	for time in +1000d '-10d' '2020-01-01 00:00:00' '+0 x20' '+0 x0.1'; do
		holds LD_PRELOAD="$lib" FAKETIME="$time" "$scratch/interposed"
		holds LD_PRELOAD="$lib" FAKETIME="$time" "$scratch/everything"
	done
done
