#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Misuses of objects end the process with a line that names the call: a second free, also by two
# threads at once; the free of another kind, or while calls are inside; a call after the free.
. "$(dirname "$0")/lib.sh"
program freed.c
freed=$scratch/freed
for kind in chan large tick timer pool multipool group done singleflight; do
	dies "has been freed already" "$freed" twice $kind
	dies "has been freed already" GMP_DEBUG=check "$freed" twice $kind 10000
	for _ in 1 2 3 4 5; do
		dies "has been freed already" "$freed" race $kind
	done
done
dies "has been freed already" "$freed" timer_own
dies "has been freed already" "$freed" twice chan 5
dies "is a channel of gmp_done_chan, which gmp_done_free frees" "$freed" done_chan
dies "gmp_chan_free: " "$freed" other_kind
for call in chan chan_len chan_cap chan_try_send chan_try_recv done_wait done_wait_until done_get \
	done_set done_chan timer_set timer_stop; do
	dies ", which has been freed" "$freed" used $call
done
[ "$("$freed" list | wc -l)" = 32 ]
for call in $("$freed" list); do
	kind=${call#gmp_}
	kind=gmp_${kind%%_*}
	name=${call%_until}
	[ $kind = gmp_singleflight ] || name=$call
	dies "has been freed already (end its users before ${kind}_free)" "$freed" used $call
	grep -q "$name: the $kind 0x[0-9a-f]* has" "$scratch/err" || fail "$call is not named"
	dies ", not a $kind (pass what ${kind}_new returned" "$freed" wrong $call
	grep -q "$name: 0x[0-9a-f]* is " "$scratch/err" || fail "$call is not named"
done
for caller in green external; do
	dies "is in use by 1 call " "$freed" inside $caller
done
holds "$freed" inside killed
