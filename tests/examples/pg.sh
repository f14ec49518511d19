# SPDX-License-Identifier: MIT
# libpq's non-blocking interface on green threads, against a real PostgreSQL server.
. "$(dirname "$0")/lib.bash"

pg=$build/examples/pg
[ -x "$pg" ] || { echo "pg has not been built: no libpq"; exit 77; }
compile "$tmp/floodpeer" "$source_dir/tests/examples/floodpeer.c"
start "$tmp/floodpeer" pg
fails_at_deadline pg libpq \
	"hostaddr=127.0.0.1 port=$port user=x sslmode=disable gssencmode=disable" 'SELECT 1'
kill -KILL "$pid"

start_postgres 40
until_ready "$pg" "$where" 'SELECT 1'

for procs in 1 2 4; do
	# Twenty at a time that each wait a tenth of a second, and a result larger than a socket's
	# buffer.
	queries=()
	wanted=
	for i in $(seq 20); do
		queries+=("SELECT $i, 'row', pg_sleep(0.1)")
		wanted+="$i	row	"$'\n'
	done
	got=$(GMP_PROCS=$procs timeout 60 "$pg" "$where" "${queries[@]}") || fail "status $?"
	check_equal "results with $procs Ps" "${wanted%$'\n'}" "$got"
	got=$(GMP_PROCS=$procs timeout 60 "$pg" "$where" 'SELECT generate_series(1, 200000)' |
		tail -n 1)
	check_equal "last row of many" 200000 "$got"
done

# The first host refuses: libpq closes the socket, and the next one may get the same number.
for procs in 1 2; do
	got=$(GMP_PROCS=$procs timeout 30 "$pg" \
		"hostaddr=127.0.0.1,127.0.0.1 port=1,$port user=postgres dbname=postgres" \
		'SELECT 42') ||
		fail "status $?"
	check_equal "second host" 42 "$got"
done

timeout 30 "$pg" "$where" 'SELECT nonsense' 'SELECT 7' >"$tmp/answer" 2>"$tmp/complaint"
check_equal "status of a bad query" 1 $?
check_equal "the other query" 7 "$(cat "$tmp/answer")"
grep -q 'column "nonsense" does not exist' "$tmp/complaint" || fail "$(cat "$tmp/complaint")"
timeout 30 "$pg" 'hostaddr=127.0.0.1 port=1' 'SELECT 1' 2>"$tmp/complaint"
check_equal "status of a refused connection" 1 $?
kill -INT "$pid"
wait "$pid" 2>/dev/null
exit 0
