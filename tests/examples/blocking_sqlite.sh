# SPDX-License-Identifier: MIT
# SQLite on green threads: transfers between accounts keep the sum.
. "$(dirname "$0")/lib.bash"

sqlite=$build/examples/blocking_sqlite
[ -x "$sqlite" ] || { echo "blocking_sqlite has not been built"; exit 77; }
for procs in 1 2 4; do
	got=$(GMP_PROCS=$procs timeout 100 "$sqlite" "$tmp/bank.db" 20 10) || fail "status $?"
	check_equal "sum with $procs Ps" 10000 "$got"
done
timeout 30 "$sqlite" /nowhere/x.db 1 1 2>"$tmp/complaint"
check_equal "status without a file" 1 $?
grep -q 'unable to open' "$tmp/complaint" || fail "$(cat "$tmp/complaint")"
exit 0
