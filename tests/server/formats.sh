# SPDX-License-Identifier: MIT
#
# The pages of the debug server are what strict parsers of their formats take: JSON, Prometheus'
# text format, HTML.  Called with the build folder.
. "$(dirname "$0")/../examples/lib.bash"
here=$(cd "$(dirname "$0")" && pwd)

command -v curl >/dev/null || { echo "curl is missing"; exit 77; }
python=
for p in /usr/bin/python3 python3; do
	"$p" -c 'import prometheus_client.parser' 2>/dev/null && { python=$p; break; }
done
[ -n "$python" ] || { echo "python3-prometheus-client is missing"; exit 77; }

start "$build/tests/server_target"
url=http://127.0.0.1:$port

# fetch PATH: the body into $tmp/body, which must be complete, of status 200
fetch() {
	local status
	status=$(curl -sS --max-time 20 -o "$tmp/body" -w '%{http_code}' "$url$1") ||
		fail "curl $1: $?"
	check_equal "status of $1" 200 "$status"
}

for path in /debug/vars '/debug/vars?cputime=5'; do
	fetch "$path"
	"$python" "$here/check_vars.py" "$tmp/body" "$pid" || fail "$path"
done
fetch /metrics
"$python" "$here/check_metrics.py" "$tmp/body" || fail /metrics
fetch /debug/
"$python" "$here/check_index.py" "$tmp/body" "$url" || fail /debug/
for path in /debug/green '/debug/green?all=1'; do
	fetch "$path"
	grep -q '^green thread [0-9]* "locker" (entry locker), waiting for .*: mutex lock' \
		"$tmp/body" || fail "$path does not show the locker"
	! LC_ALL=C grep -q "$(printf '[\001-\011\013-\037\177]')" "$tmp/body" ||
		fail "$path has control characters"
done
kill -0 "$pid" || fail "the program has ended"
