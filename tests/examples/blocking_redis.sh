# SPDX-License-Identifier: MIT
# hiredis' blocking interface on green threads, against a real redis-server.
. "$(dirname "$0")/lib.bash"

redis=$build/examples/blocking_redis
[ -x "$redis" ] || { echo "blocking_redis has not been built"; exit 77; }
command -v redis-server >/dev/null || { echo "redis-server is missing"; exit 77; }
start_on_free_port redis-server --port PORT --bind 127.0.0.1 --save '' --appendonly no
until_ready redis-cli -p "$port" ping

n=0
for procs in 1 2 4; do
	got=$(GMP_PROCS=$procs timeout 60 "$redis" 127.0.0.1 "$port" 50 40) || fail "status $?"
	n=$((n + 2000))
	check_equal "count with $procs Ps" "$n" "$got"
done
timeout 30 "$redis" 127.0.0.1 1 1 1 2>"$tmp/complaint"
check_equal "status of a refused connection" 1 $?
grep -q 'Connection refused' "$tmp/complaint" || fail "$(cat "$tmp/complaint")"
exit 0
