# SPDX-License-Identifier: MIT
# libpq's blocking interface on green threads, against a real PostgreSQL server.
. "$(dirname "$0")/lib.bash"

pg=$build/examples/blocking_pg
[ -x "$pg" ] || { echo "blocking_pg has not been built"; exit 77; }
start_postgres 60
until_ready "$pg" "$where" 1 1 'SELECT 1'

# 300 queries of 0.1 s on 50 connections take 0.6 s.  In libpq's poll an OS thread would be needed
# for each connection.  sysmon replaces an OS thread that loses its CPU: a busy machine needs some
# spare ones.
for procs in 1 2 4; do
	out=$(GMP_PROCS=$procs timeout 60 "$pg" "$where" 300 50 'SELECT pg_sleep(0.1)') ||
		fail "status $?: $out"
	grep -q '^300 queries on 50 connections: .* 0 failed$' <<<"$out" || fail "$out"
	threads=$(sed 's/.* \([0-9]*\) OS threads.*/\1/' <<<"$out")
	[ "$threads" -le $((procs + 16)) ] || fail "$procs Ps: $out"
done

# A result that is larger than a socket's buffer.
out=$(timeout 60 "$pg" "$where" 20 5 'SELECT generate_series(1, 50000)') || fail "status $?: $out"
timeout 60 "$pg" "$where" 3 1 'SELECT nonsense' >/dev/null 2>"$tmp/complaint"
check_equal "status of a bad query" 1 $?
grep -q 'column "nonsense" does not exist' "$tmp/complaint" || fail "$(cat "$tmp/complaint")"

# A server that goes away in the middle is an error for each query, and no green thread hangs.
timeout 60 "$pg" "$where" 1000 10 'SELECT pg_sleep(0.1)' >"$tmp/answer" 2>"$tmp/complaint" &
client=$!
sleep 0.5
kill -QUIT "$pid"
wait "$client"
check_equal "status without a server" 1 $?
timeout 30 "$pg" 'hostaddr=127.0.0.1 port=1' 1 1 'SELECT 1' 2>"$tmp/complaint"
check_equal "status of a refused connection" 1 $?
exit 0
