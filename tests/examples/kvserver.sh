# SPDX-License-Identifier: MIT
# kvserver answers with the right bytes, and its options are what --help says.  $2 is the
# architecture.
. "$(dirname "$0")/lib.bash"

kvserver=$build/examples/kvserver
arch=${2:-conn}

if ! has_arch "$arch"; then
	echo "skipped: built without libuv"
	exit 77
fi

# refused MESSAGE OPTION...: status 2 and the message.
refused() {
	local message=$1

	shift
	"$kvserver" "$@" >"$tmp/out" 2>"$tmp/err"
	check_equal "status of $*" 2 $?
	grep -qF -- "$message" "$tmp/err" || fail "$*: $(cat "$tmp/err")"
}

"$kvserver" --help | grep -q '^usage: kvserver' || fail "no help"
refused '--arch is conn, owner or reactor' --arch what
refused '--port wants a number' --port 65536
refused '--port wants a number' --port x
refused '--port wants a number' --port -1
refused '--port wants a number' --port ''
refused '--timeout wants a number' --timeout -1
refused '--write-timeout wants a number' --write-timeout x
refused '--procs wants a number' --procs 0
refused '--procs wants a number' --procs 100000000000000000000
refused 'see kvserver --help' --what
refused 'see kvserver --help' --port
refused 'what is "7000"?' 7000

start "$kvserver" --arch "$arch" --port 0 --procs 2 --stats
"$kvserver" --arch "$arch" --port "$port" 2>"$tmp/err.second" >/dev/null
check_equal "status when the port is taken" 1 $?
grep -q "cannot listen" "$tmp/err.second" || fail "no message when the port is taken"
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'PING\r\n' >&3
read -r -t 10 line <&3
check_equal "PING" $'+PONG\r' "$line"
exec 3>&-
end INT
[ "$arch" = reactor ] || grep -q '^switches  *[1-9]' "$tmp/out" ||
	fail "no counters: $(cat "$tmp/out")"

# redis OPTION...: what redis-cli prints, which has no time limit of its own.
redis() {
	timeout 20 redis-cli "$@"
}

if command -v redis-cli >/dev/null; then
	start "$kvserver" --arch "$arch" --unix "$tmp/socket" --port 0
	check_equal "by the unix socket" PONG "$(redis -s "$tmp/socket" ping)"
	check_equal "by TCP" PONG "$(redis -p "$port" ping)"
	"$kvserver" --arch "$arch" --unix "$tmp/socket" 2>/dev/null >/dev/null
	check_equal "status when the path is taken" 1 $?
	check_equal "by the unix socket" PONG "$(redis -s "$tmp/socket" ping)"
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	[ -S "$tmp/socket" ] || fail "there should be a stale socket"
	start "$kvserver" --arch "$arch" --unix "$tmp/socket" --port 0
	check_equal "by a path that was stale" PONG "$(redis -s "$tmp/socket" ping)"
	end TERM
	[ -e "$tmp/socket" ] && fail "the socket is still there"
fi

ulimit -n 4096 2>/dev/null
compile_client kvclient
"$tmp/kvclient" -- "$kvserver" --arch "$arch" --port 0 2>"$tmp/log" || fail "$(tail -5 "$tmp/log")"
compile_client ending
# without preemption the main thread, which is stopped, serves as an M
GMP_PREEMPT=off "$tmp/ending" -- "$kvserver" --arch "$arch" --port 0 2>"$tmp/log" ||
	fail "ends at any moment: $(tail -5 "$tmp/log")"
