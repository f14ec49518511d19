# SPDX-License-Identifier: MIT
# httpd over TLS, with OpenSSL's blocking interface: files, time limits, the ends of connections.
# It compares times: it needs a CPU.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/httpd.bash"

httpsd=$build/examples/httpsd
[ -x "$httpsd" ] || { echo "httpsd has not been built"; exit 77; }
command -v openssl >/dev/null || { echo "openssl is missing"; exit 77; }
command -v curl >/dev/null || { echo "curl is missing"; exit 77; }

make_certificate
cert=(--cert "$tmp/cert.pem" --key "$tmp/key.pem")
make_files
head -c 30000000 /dev/zero >"$tmp/files/huge"
head -c 300000 /dev/urandom >"$tmp/files/medium"

# Options.
"$httpsd" --cert "$tmp/cert.pem" 2>"$tmp/err"
check_equal "status without a key" 2 $?
"$httpsd" --cert "$tmp/none" --key "$tmp/key.pem" 2>"$tmp/err"
check_equal "status without a certificate" 1 $?
grep -q "^httpd: $tmp/none: " "$tmp/err" || fail "$(cat "$tmp/err")"
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:prime256v1 -out "$tmp/other.pem"
"$httpsd" --cert "$tmp/cert.pem" --key "$tmp/other.pem" 2>"$tmp/err"
check_equal "status with another key" 1 $?
grep -q "^httpd: $tmp/other.pem: key values mismatch" "$tmp/err" || fail "$(cat "$tmp/err")"
"$build/examples/httpd" "${cert[@]}" 2>"$tmp/err"
check_equal "status of a program without TLS" 1 $?
grep -q 'built without TLS' "$tmp/err" || fail "$(cat "$tmp/err")"

get() { curl -sS --cacert "$tmp/cert.pem" "$@"; }
descriptors() { find "/proc/$pid/fd" -lname 'socket:*' | wc -l; }

# until_descriptors N: the server has N sockets or fewer, within 20 seconds.
until_descriptors() {
	for _ in $(seq 400); do
		[ "$(descriptors)" -le "$1" ] && return
		sleep 0.05
	done
	fail "$(descriptors) sockets instead of $1"
}

# s_client OPTION...: sends standard input, and writes what the server sends; the end is $tmp/log.
s_client() {
	timeout 20 openssl s_client -quiet -ign_eof -connect "localhost:$port" \
		-CAfile "$tmp/cert.pem" -verify_return_error "$@" 2>"$tmp/log"
}

# Files, over one connection; requests that are refused.
for procs in 1 2 4; do
	GMP_PROCS=$procs start "$httpsd" --port 0 --root "$tmp/files" "${cert[@]}"
	url=https://localhost:$port
	before=$(descriptors)
	check_files

	# 100 connections at a time, and 20 silent ones, do not cost an OS thread each.
	fds=()
	for _ in $(seq 20); do
		exec {fd}<>"/dev/tcp/127.0.0.1/$port"
		fds+=("$fd")
	done
	urls=()
	for i in $(seq 100); do
		urls+=(-o "$tmp/many.$i" "$url/medium")
	done
	get --fail -Z --parallel-immediate --parallel-max 100 "${urls[@]}" \
		-w '%{num_connects}\n' >"$tmp/connects" || fail "curl: $?"
	check_equal "connections" 100 "$(grep -c '^1$' "$tmp/connects")"
	for i in $(seq 100); do
		cmp "$tmp/files/medium" "$tmp/many.$i" || fail "another file"
	done
	threads=$(sed -n 's/^Threads:[^0-9]*//p' "/proc/$pid/status")
	[ "$threads" -le $((procs + 40)) ] || fail "$procs Ps: $threads OS threads"
	for fd in "${fds[@]}"; do
		exec {fd}>&-
	done
	until_descriptors "$before"

	# Both versions of TLS, and close_notify at the end: without it s_client reports an error.
	for version in -tls1_2 -tls1_3; do
		printf 'GET /small.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' |
			s_client $version >"$tmp/answer" ||
			fail "s_client $version: $(cat "$tmp/log")"
		check_equal "answer with $version" small "$(tail -n 1 "$tmp/answer")"
		grep -q 'unexpected eof' "$tmp/log" && fail "no close_notify"
	done
	end TERM
done

start "$httpsd" --port 0 --root "$tmp/files" "${cert[@]}"
url=https://localhost:$port
before=$(descriptors)

# HTTP without TLS is answered by the reason, with each method; other bytes are not.
for method in GET OPTIONS BREW; do
	check_equal "$method without TLS" $'400 Bad Request\nThis port speaks HTTPS only.\n400' \
		"$(curl -sS -X $method -w '%{http_code}' "http://localhost:$port/small.txt")"
done
exec 3<>"/dev/tcp/127.0.0.1/$port" && printf '\0\1\2\3\4\5' >&3
check_equal "answer to garbage" "" "$(timeout 20 cat <&3 2>/dev/null)"
exec 3>&-
# A handshake that fails: no common version, and a TLS record with garbage.
s_client -tls1_1 -cipher DEFAULT@SECLEVEL=0 </dev/null >/dev/null
grep -q 'SSL alert number' "$tmp/log" || fail "$(cat "$tmp/log")"
exec 3<>"/dev/tcp/127.0.0.1/$port" && printf '\x16\x03\x01\x00\x04abcd' >&3
timeout 20 cat <&3 >/dev/null 2>&1
[ $? != 124 ] || fail "a broken handshake does not end"
exec 3>&-
# A client cannot renegotiate.
(echo R; sleep 1) | timeout 20 openssl s_client -tls1_2 -connect "localhost:$port" \
	-CAfile "$tmp/cert.pem" >"$tmp/answer" 2>&1
grep -q 'no renegotiation' "$tmp/answer" || fail "$(cat "$tmp/answer")"
# Clients that close in the middle of an answer end neither the server (SIGPIPE) nor others.
for _ in $(seq 20); do
	get "$url/huge" 2>/dev/null | head -c 100000 >/dev/null
done
check_equal "after clients that closed" 200 "$(code "$url/small.txt")"
until_descriptors "$before"
# SIGTERM during an answer completes it.
get --limit-rate 40M -o "$tmp/got.4" "$url/huge" &
client=$!
until [ -s "$tmp/got.4" ]; do
	kill -0 $client 2>/dev/null || break
	sleep 0.02
done
end TERM
wait $client || fail "an answer was cut: $?"
cmp "$tmp/files/huge" "$tmp/got.4" || fail "another file"

# Time limits.
start "$httpsd" --port 0 --root "$tmp/files" --timeout 2 "${cert[@]}"
before=$(descriptors)
# A client that does not begin the handshake, and another that sends it slowly: a record of 16 KiB.
exec 3<>"/dev/tcp/127.0.0.1/$port" 4<>"/dev/tcp/127.0.0.1/$port"
begun=${EPOCHREALTIME/./}
printf '\x16\x03\x01\x40\x00\x01' >&4
while printf '\0' >&4 && read -r -t 0.3 -u 4; [ $? -gt 128 ]; do
	[ $((${EPOCHREALTIME/./} - begun)) -lt 20000000 ] || break
done 2>/dev/null
lasted=$((${EPOCHREALTIME/./} - begun))
[ $lasted -lt 20000000 ] || fail "a slow handshake does not end"
[ $lasted -ge 1900000 ] || fail "a slow handshake has no time"
timeout 20 cat <&3 >/dev/null
[ $? != 124 ] || fail "a silent client is not disconnected"
exec 3>&- 4>&-
# A request that is not complete; a client without a further request; a client that reads
# nothing.
printf 'GET /small' | s_client >"$tmp/answer"
grep -q '^HTTP/1.1 408 ' "$tmp/answer" || fail "$(cat "$tmp/answer")"
grep -q 'unexpected eof' "$tmp/log" && fail "no close_notify after 408"
printf 'GET /small.txt HTTP/1.1\r\nHost: x\r\n\r\n' | s_client >"$tmp/answer"
check_equal "answer before the end" small "$(tail -n 1 "$tmp/answer")"
grep -q 'unexpected eof' "$tmp/log" && fail "no close_notify to an idle client"
mkfifo "$tmp/full"
exec 5<>"$tmp/full"
openssl s_client -quiet -connect "localhost:$port" >&5 2>"$tmp/log" \
	< <(printf 'GET /huge HTTP/1.1\r\nHost: x\r\n\r\n') &
pids+=($!)
until [ "$(descriptors)" -gt "$before" ]; do sleep 0.05; done
until_descriptors "$before"
end TERM
exit 0
