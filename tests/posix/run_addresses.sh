#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A bad address gives each replaced function under gmp-run the result that it has natively, unless
# that is SIGSEGV.
#
#   run_addresses.sh BUILD
set -euo pipefail
build=$1
run=$build/tools/gmp-run
addresses=$build/tests/posix_addresses
"$run" "$build/tests/posix_whole" 2>&1 | grep -q 'not supported here' && exit 77
natively=$("$addresses")
[ "$(grep -c 'Bad address' <<<"$natively")" -gt 500 ]
for procs in 1 2; do
	green=$(timeout 60 "$run" --procs $procs "$addresses")
	awk -F '\t' -v procs=$procs '
		NR == FNR { native[$1] = $2; next }
		{ seen[$1] = 1 }
		native[$1] != $2 && native[$1] !~ /signal 11/ {
			print $1 ": natively " native[$1] "; " procs " P: " $2
			differ = 1
		}
		END {
			for (key in native)
				if (!seen[key]) {
					print key ": natively " native[key] "; missing"
					differ = 1
				}
			exit differ
		}' <(echo "$natively") <(echo "$green")
done
