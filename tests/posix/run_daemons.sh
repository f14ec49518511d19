#!/bin/bash
# SPDX-License-Identifier: MIT
#
# tinyproxy and stunnel4 of Debian, which fork into the background, answer requests under gmp-run.
# Their first threads, which wait for connections, are green threads: no OS thread is in poll.  A
# signal ends these waits.
#
#   run_daemons.sh BUILD
set -euo pipefail
build=$(realpath "$1")
run=$build/tools/gmp-run
for command in tinyproxy stunnel4 curl openssl python3; do
	type -P $command >/dev/null || {
		echo "skipped: $command is missing"
		exit 77
	}
done
"$run" "$build/tests/posix_whole" 2>&1 | grep -q 'not supported here' && exit 77
tmp=$(mktemp -d)
stop() {
	for pid in "$tmp"/*.pid; do
		[ -s "$pid" ] && kill "$(cat "$pid")" || true
	done
	[ -z "${http:-}" ] || kill "$http" || true
	rm -rf "$tmp"
}
trap stop EXIT
cd "$tmp"
echo 'the page' >index.html
coproc HTTP { exec python3 -uc '
import http.server, socket
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass
free = [socket.socket() for _ in range(2)]
for s in free:
    s.bind(("127.0.0.1", 0))
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128 # with 5, the kernel drops connections of 40 clients
server = Server(("127.0.0.1", 0), Quiet)
print(server.server_port, *(s.getsockname()[1] for s in free))
for s in free:
    s.close()
server.serve_forever()'; }
http=$HTTP_PID
read -r page proxy tls <&"${HTTP[0]}"
cat >proxy.conf <<END
Port $proxy
Listen 127.0.0.1
Allow 127.0.0.1
Timeout 60
MaxClients 100
LogFile "$tmp/proxy.log"
PidFile "$tmp/proxy.pid"
END
openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out cert -days 2 -subj /CN=localhost \
	2>/dev/null
cat key cert >both
chmod 600 both
cat >tls.conf <<END
pid = $tmp/tls.pid
output = $tmp/tls.log
foreground = no
[http]
accept = 127.0.0.1:$tls
connect = 127.0.0.1:$page
cert = $tmp/both
END
"$run" tinyproxy -c proxy.conf
"$run" stunnel4 tls.conf
# a request is answered as soon as the daemon listens
fetch() {
	curl -sS --retry 50 --retry-connrefused --retry-delay 1 --max-time 60 "$@"
}
for n in 1 2 3; do
	[ "$(fetch -x "http://127.0.0.1:$proxy" "http://127.0.0.1:$page/index.html")" = 'the page' ]
	[ "$(fetch -k "https://127.0.0.1:$tls/index.html")" = 'the page' ]
done
for n in $(seq 20); do
	fetch -x "http://127.0.0.1:$proxy" "http://127.0.0.1:$page/index.html" >"p$n" &
	requests+=($!)
	fetch -k "https://127.0.0.1:$tls/index.html" >"t$n" &
	requests+=($!)
done
wait "${requests[@]}"
[ "$(cat p? p?? t? t?? | grep -c '^the page$')" = 40 ]
printf 'GET /index.html HTTP/1.0\r\n\r\n' |
	openssl s_client -quiet -connect "127.0.0.1:$tls" 2>/dev/null | grep -q 'the page'
for pid in proxy tls; do
	grep -q libgmprt_posix "/proc/$(cat $pid.pid)/maps"
done
case $(uname -m) in
x86_64) polls='^(7|271) ' ;;
*) polls='^73 ' ;;
esac
for pid in proxy tls; do
	if grep -E "$polls" /proc/"$(cat $pid.pid)"/task/*/syscall; then
		echo "$pid: an OS thread blocks in poll"
		exit 1
	fi
done
for pid in proxy tls; do
	number=$(cat $pid.pid)
	kill "$number"
	timeout 60 tail --pid="$number" -f /dev/null
	[ ! -e $pid.pid ] # the daemon removes it
done
