# SPDX-License-Identifier: MIT
# hiredis in non-blocking mode on green threads, against a real redis-server.
. "$(dirname "$0")/lib.bash"

redis=$build/examples/redis
[ -x "$redis" ] || { echo "redis has not been built: no hiredis"; exit 77; }
compile "$tmp/floodpeer" "$source_dir/tests/examples/floodpeer.c"
start "$tmp/floodpeer" redis
fails_at_deadline redis hiredis --port "$port" --clients 1 --requests 1
kill -KILL "$pid"

command -v redis-server >/dev/null || { echo "redis-server is missing"; exit 77; }

start_on_free_port redis-server --port PORT --bind 127.0.0.1 --save '' --appendonly no
until_ready redis-cli -p "$port" ping

for procs in 1 2 4; do
	out=$(GMP_PROCS=$procs timeout 60 "$redis" --port "$port" --clients 50 --requests 40) ||
		fail "status $?: $out"
	grep -q '^2000 commands on 50 connections: .* 0 errors$' <<<"$out" || fail "$out"
done
check_equal "keys left" "" "$(redis-cli -p "$port" keys 'gmp:*')"

# A server that goes away in the middle is an error, and no client waits for it.
timeout 60 "$redis" --port "$port" --clients 10 --requests 1000000 >"$tmp/out" 2>"$tmp/err" &
client=$!
until_ready redis-cli -p "$port" exists gmp:example:9
kill -KILL "$pid"
wait "$client"
check_equal "status without a server" 1 $?
timeout 60 "$redis" --port "$port" --clients 1 2>"$tmp/err"
check_equal "status of a refused connection" 1 $?
[ -s "$tmp/err" ] || fail "a refused connection is not reported"
"$redis" --clients x 2>/dev/null
check_equal "status of a bad option" 2 $?
