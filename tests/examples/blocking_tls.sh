# SPDX-License-Identifier: MIT
# OpenSSL's blocking interface on green threads: the server under openssl s_client and under our
# client, the client against openssl s_server.
. "$(dirname "$0")/lib.bash"

tls=$build/examples/blocking_tls
[ -x "$tls" ] || { echo "blocking_tls has not been built"; exit 77; }
command -v openssl >/dev/null || { echo "openssl is missing"; exit 77; }
make_certificate

for procs in 1 2 4; do
	start_on_free_port env GMP_PROCS=$procs \
		"$tls" serve 127.0.0.1 PORT "$tmp/cert.pem" "$tmp/key.pem"
	until_ready "$tls" ask 127.0.0.1 "$port" "$tmp/cert.pem" 1 ready
	out=$(GMP_PROCS=$procs timeout 60 \
		"$tls" ask 127.0.0.1 "$port" "$tmp/cert.pem" 100 "a line for $procs") ||
		fail "status $?: $out"
	check_equal "answers" "100 of 100 answers are right" "$out"
	for version in -tls1_2 -tls1_3; do
		got=$(printf 'hello %s\n' $version | { cat; sleep 0.5; } |
			timeout 20 openssl s_client -quiet -no_ign_eof $version \
				-connect "127.0.0.1:$port" -CAfile "$tmp/cert.pem" \
				-servername localhost -verify_return_error \
				2>"$tmp/log") || true # a client that closes without an alert
		check_equal "echo with $version" "hello $version" "$got"
	done
	# 53 connections, three of them idle, do not cost an OS thread each.  Handshakes compute, so
	# preemption may add some.
	exec 5<>"/dev/tcp/127.0.0.1/$port" 6<>"/dev/tcp/127.0.0.1/$port" \
		7<>"/dev/tcp/127.0.0.1/$port"
	out=$(timeout 60 "$tls" ask 127.0.0.1 "$port" "$tmp/cert.pem" 50 x) ||
		fail "status $?: $out"
	threads=$(sed -n 's/^Threads:[^0-9]*//p' "/proc/$pid/status")
	[ "$threads" -le $((procs + 24)) ] || fail "$procs Ps: $threads OS threads"
	exec 5>&- 6>&- 7>&-
	kill -KILL "$pid"
done

start_on_free_port openssl s_server -quiet -rev -accept PORT -cert "$tmp/cert.pem" \
	-key "$tmp/key.pem"
until_ready bash -c "exec 3<>/dev/tcp/127.0.0.1/$port"
timeout 30 "$tls" ask 127.0.0.1 "$port" "$tmp/cert.pem" 1 level$'\n' >"$tmp/answer" 2>&1
grep -q '^[01] of 1 answers' "$tmp/answer" || fail "$(cat "$tmp/answer")"
timeout 30 "$tls" ask 127.0.0.1 1 "$tmp/cert.pem" 1 x >"$tmp/answer" 2>"$tmp/complaint"
check_equal "status of a refused connection" 1 $?
grep -q 'Connection refused' "$tmp/complaint" || fail "$(cat "$tmp/complaint")"
exit 0
