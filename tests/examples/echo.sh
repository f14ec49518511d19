# SPDX-License-Identifier: MIT
# echo returns what it gets, to many clients at a time, and ends on a signal.
. "$(dirname "$0")/lib.bash"

# one_client NUMBER: sends a few lines, one at a time, then much at once.
one_client() {
	local i line

	exec 3<>"/dev/tcp/127.0.0.1/$port" || return 1
	for i in $(seq 20); do
		echo "client $1 line $i" >&3
		read -r -t 10 line <&3 || return 1
		[ "$line" = "client $1 line $i" ] || return 1
	done
	head -c 100000 /dev/urandom >"$tmp/sent.$1"
	cat "$tmp/sent.$1" >&3 &
	head -c 100000 <&3 | cmp - "$tmp/sent.$1"
}

start "$build/examples/echo" --port 0
clients=()
for i in $(seq 20); do
	one_client "$i" &
	clients+=($!)
done
for client in "${clients[@]}"; do
	wait "$client" || fail "a client got something else"
done
exec 4<>"/dev/tcp/127.0.0.1/$port" # is still there at the end
end TERM

start "$build/examples/echo" --port 0
end INT

"$build/examples/echo" --port 65536 2>"$tmp/err"
check_equal "status of a bad port" 2 $?
grep -q "not a port: 65536" "$tmp/err" || fail "no message for a bad port"
"$build/examples/echo" --what 2>/dev/null
check_equal "status of a bad option" 2 $?
"$build/examples/echo" --help | grep -q '^usage:' || fail "no help"
