#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Objects that are freed twice, also by two threads at once, used after that, freed by the call of another, or while calls are inside: each ends
# the process with a line that names the call.
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
for kind in chan singleflight; do
	dies ", which has been freed" "$freed" used $kind
done
for caller in green external; do
	dies "is in use by 1 call " "$freed" inside $caller
done
holds "$freed" inside killed
