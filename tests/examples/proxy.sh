# SPDX-License-Identifier: MIT
# proxy forwards what both sides send, and how they end.
. "$(dirname "$0")/lib.bash"

proxy=$build/examples/proxy

for options in '--port 0' '--to 127.0.0.1:1 --port 65536' '--to 127.0.0.1:1 --what' '--to x y'; do
	# shellcheck disable=SC2086
	"$proxy" $options 2>"$tmp/err"
	check_equal "status of $options" 2 $?
	grep -q '^usage:' "$tmp/err" || fail "no help after $options"
done

# No server listens on port 1: the client is reset, and one line says why.
start "$proxy" --port 0 --to 127.0.0.1:1
exec 3<>"/dev/tcp/127.0.0.1/$port"
[ -z "$(cat <&3 2>/dev/null)" ] || fail "an answer"
exec 3>&-
kill -TERM "$pid"
wait "$pid"
check_equal "status" 0 $?
check_equal "message" "proxy: 127.0.0.1:1: Connection refused" "$(cat "$tmp/err")"

ulimit -n 4096 2>/dev/null
compile_client proxyclient
"$tmp/proxyclient" -- "$proxy" --port 0 2>"$tmp/log" || fail "$(tail -5 "$tmp/log")"

compile_client httpproxyclient
"$tmp/httpproxyclient" -- "$proxy" --http --port 0 2>"$tmp/log" || fail "$(tail -5 "$tmp/log")"
