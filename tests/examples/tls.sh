# SPDX-License-Identifier: MIT
# OpenSSL on green threads: the server under openssl s_client, the client against openssl s_server.
. "$(dirname "$0")/lib.bash"

tls=$build/examples/tls
[ -x "$tls" ] || { echo "tls has not been built: no OpenSSL"; exit 77; }
command -v openssl >/dev/null || { echo "openssl is missing"; exit 77; }

make_certificate
head -c 300000 /dev/urandom >"$tmp/data"

start "$tls" serve --port 0 --cert "$tmp/cert.pem" --key "$tmp/key.pem"

# openssl's client: a line comes back, with TLS 1.2 and 1.3.
for version in -tls1_2 -tls1_3; do
	got=$(printf 'hello %s\n' $version | { cat; sleep 0.5; } |
		timeout 20 openssl s_client -quiet $version -connect "127.0.0.1:$port" \
			-CAfile "$tmp/cert.pem" -servername localhost -verify_return_error \
			2>"$tmp/log") ||
		true # a client that closes without an alert
	check_equal "echo with $version" "hello $version" "$got"
done

# Many of our clients at a time.
clients=()
for i in $(seq 20); do
	timeout 60 "$tls" send "127.0.0.1:$port" --ca "$tmp/cert.pem" <"$tmp/data" >"$tmp/back.$i" &
	clients+=($!)
done
for client in "${clients[@]}"; do
	wait "$client" || fail "a client failed"
done
for i in $(seq 20); do
	cmp "$tmp/data" "$tmp/back.$i" || fail "client $i got something else"
done

# Faults are errors of one connection, and leave nothing in the error queues of the others.
echo | timeout 20 "$tls" send "127.0.0.1:$port" --ca "$tmp/cert.pem" --name other 2>"$tmp/complaint"
check_equal "status with a wrong name" 1 $?
grep -qi 'hostname mismatch' "$tmp/complaint" || fail "$(cat "$tmp/complaint")"
echo | timeout 20 "$tls" send "127.0.0.1:$port" 2>"$tmp/complaint"
check_equal "status with an unknown authority" 1 $?
exec 3<>"/dev/tcp/127.0.0.1/$port" && echo "this is not TLS" >&3 && exec 3>&-
got=$(echo again | timeout 20 "$tls" send "127.0.0.1:$port" --ca "$tmp/cert.pem") ||
	fail "status $?"
check_equal "echo after the faults" again "$got"
# Faults of many connections give at most one line a second.
: >"$tmp/err"
begun=$SECONDS
for _ in $(seq 200); do
	exec 3<>"/dev/tcp/127.0.0.1/$port" && echo "this is not TLS" >&3 && cat <&3 >/dev/null 2>&1
	exec 3>&-
done
lines=$(wc -l <"$tmp/err")
[ "$lines" -le $((SECONDS - begun + 2)) ] || fail "$lines lines for 200 faults"

kill -TERM "$pid"
wait "$pid"
check_equal "status of the server" 0 $?

# Our client against openssl's server, which sends back each line reversed.
start_on_free_port openssl s_server -accept 127.0.0.1:PORT -cert "$tmp/cert.pem" \
	-key "$tmp/key.pem" -rev -quiet
until_ready bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"
got=$(echo abc | timeout 20 "$tls" send "127.0.0.1:$port" --ca "$tmp/cert.pem") || fail "status $?"
check_equal "answer of s_server" cba "$got"
"$tls" serve 2>/dev/null
check_equal "status of a bad call" 2 $?
