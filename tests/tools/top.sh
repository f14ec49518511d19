# SPDX-License-Identifier: MIT
# gmp-top in batch mode prints the samples of a fake server, and survives every answer.
. "$(dirname "$0")/../examples/lib.bash"

command -v python3 >/dev/null || exit 77
top=$build/tools/gmp-top
folder=$source_dir/tests/tools/top

# serve SCENARIO: by a server that replaces the one before
serve() {
	[ -z "${pid:-}" ] || kill "$pid"
	start python3 "$folder/server.py" "$1"
}

# prints_usage STATUS TEXT ARGUMENT...
prints_usage() {
	local wanted=$1 text=$2

	shift 2
	"$top" "$@" >"$tmp/got" 2>&1 </dev/null
	check_equal "status of gmp-top $*" "$wanted" $?
	grep -qF -- "$text" "$tmp/got" || fail "gmp-top $*: $(cat "$tmp/got")"
}

prints_usage 0 'usage: gmp-top' -h
prints_usage 0 'usage: gmp-top' --help
prints_usage 0 "gmp-top $(sed -n 's/^#define GMP_VERSION_[A-Z]* //p' \
	"$source_dir/include/gmp/base.h" | paste -sd.)" --version
prints_usage 2 'ADDR is missing'
prints_usage 2 'more than one ADDR' 1 2
prints_usage 2 'invalid option' -x 1
for seconds in 0 0.09 61 nan 1x ''; do
	prints_usage 2 "-d wants 0.1 to 60 seconds: $seconds" -d "$seconds" 1
done
for count in 0 -1 x 99999999999999999999; do
	prints_usage 2 "-n wants a count from 1: $count" -n "$count" 1
done
for address in '' : 0 65536 123456 x host host: host:x ::1 ::1:80 '[::1]' '[]:80' 'a b:80' \
	'a/b:80' $'a\r\nb:80' "$(printf '%0300d' 0):80"; do
	prints_usage 2 'ADDR is not host:port' "$address"
done
prints_usage 1 'no terminal; use -b' 1

# The figures, in each form of an answer.
for scenario in run chunked until-end; do
	serve $scenario
	for address in "$port" ":$port" "127.0.0.1:$port" "localhost:$port"; do
		"$top" -b -n 2 -d 0.1 "$address" >"$tmp/got" 2>"$tmp/complaint" ||
			fail "$scenario, $address: status $?: $(cat "$tmp/complaint")"
		[ "$address" != "$port" ] || cp "$tmp/got" "$tmp/first"
		grep -q 'switches  *1.00M' "$tmp/got" || fail "$scenario: $(cat "$tmp/got")"
	done
	sed "1,/^\$/d; s/$port/PORT/" "$tmp/first" | diff "$folder/run.txt" - ||
		fail "$scenario: the second sample differs"
	check_equal "rates in the first sample" 1 \
		"$(sed '/^$/q' "$tmp/first" | grep -c 'switches  *-  spawns  *-')"
	grep -qx "GET /debug/vars?cputime=5 HTTP/1.1 Host: localhost:$port" "$tmp/out" ||
		fail "requests: $(cat "$tmp/out")"
done
"$top" -b -n 1 "$port" >/dev/full 2>"$tmp/complaint"
check_equal "status of a full device" 1 $?
grep -q 'cannot write to standard output' "$tmp/complaint" || fail "$(cat "$tmp/complaint")"

# The lease of CPU time lasts until the next sample.
"$top" -b -n 1 -d 60 "$port" >/dev/null && grep -q 'cputime=60 ' "$tmp/out" ||
	fail "requests: $(cat "$tmp/out")"

serve restart
"$top" -b -n 2 -d 0.1 "$port" >"$tmp/got" || fail "restart: status $?"
check_equal "samples without rates after a restart" 2 "$(grep -c 'switches  *-  spa' "$tmp/got")"

# A terminal gets no control characters of the program, and no other characters than it can show.
serve hostile.json
"$top" -b -n 1 "$port" >"$tmp/got" || fail "hostile: status $?"
! LC_ALL=C grep -q '[^ -~]' "$tmp/got" || fail "bytes for the terminal: $(cat -v "$tmp/got")"
for text in 'esc\u001b]0;title\u0007' 'nul\u0000nul' 'right\u202eleft' 'c1\u009bm\u000atail' \
	'caf\u00e9 \u6f22\u5b57' 'zero\u200bwidth'; do
	grep -qF "$text" "$tmp/got" || fail "no $text: $(cat "$tmp/got")"
done
LC_ALL=C.UTF-8 "$top" -b -n 1 "$port" >"$tmp/got" || fail "hostile, UTF-8: status $?"
! LC_ALL=C grep -q '[[:cntrl:]]' "$tmp/got" || fail "bytes for the terminal: $(cat -v "$tmp/got")"
if [ "$(LC_ALL=C.UTF-8 locale charmap 2>/dev/null)" = UTF-8 ]; then
	grep -q 'café 漢字                zero' "$tmp/got" || fail "UTF-8: $(cat "$tmp/got")"
fi
serve missing.json
"$top" -b -n 2 -d 0.1 "$port" >"$tmp/got" || fail "missing fields: status $?"
grep -q 'pid -\|- alive' "$tmp/got" || fail "missing fields: $(cat "$tmp/got")"

# Answers that are wrong, or do not end.
while read -r scenario text; do
	serve "$scenario"
	timeout 30 "$top" -b -n 1 "$port" >"$tmp/got" 2>"$tmp/complaint"
	check_equal "status of $scenario" 1 $?
	grep -q "^gmp-top: .*$text" "$tmp/complaint" || fail "$scenario: $(cat "$tmp/complaint")"
	grep -q 'has it called gmp_debug_listen' "$tmp/complaint" || fail "$scenario: no advice"
	! LC_ALL=C grep -q '[^ -~]' "$tmp/complaint" || fail "$scenario: bytes for the terminal"
	[ ! -s "$tmp/got" ] || fail "$scenario: output: $(cat "$tmp/got")"
done <<'END'
closing the answer ends too early
garbage the answer is not HTTP
head-cut the answer ends too early
body-cut the answer ends too early
chunk-cut the answer ends too early
bad-chunk the answer has an invalid chunk
large-chunk the answer has an invalid chunk
two-lengths the answer has an invalid head
both-forms the answer has an invalid head
bad-length the answer has an invalid head
huge-length the answer is larger than 4 MiB
no-json the answer is not valid JSON
no-object the answer has no time_ns
latin1 the answer is not valid JSON
not-found the server answers 404: no.u001b.2Jpage$
long-line a line is too long
long-head the answer has an invalid head
endless the answer is larger than 4 MiB
deep the answer is not valid JSON
silent no complete answer within 5 s
full no connection within 2 s
END
kill "$pid"
wait "$pid" 2>/dev/null
timeout 30 "$top" -b -n 1 "$port" 2>"$tmp/complaint"
check_equal "status without a server" 1 $?
grep -q 'Connection refused' "$tmp/complaint" || fail "$(cat "$tmp/complaint")"

# A server that goes away: the next sample is tried all the same.
pid=
serve once
timeout 30 "$top" -b -n 3 -d 0.1 "$port" >"$tmp/got" 2>"$tmp/complaint"
check_equal "status of a server that goes away" 1 $?
check_equal "samples of a server that goes away" 1 "$(grep -c '^gmp-top' "$tmp/got")"
check_equal "attempts after that" 2 "$(grep -c 'refused; trying again' "$tmp/complaint")"

# SIGTERM ends the wait for a sample.
pid=
serve run
server=$pid
rm "$tmp/got" # of the server before
"$top" -b -d 60 "$port" >"$tmp/got" 2>"$tmp/err" &
pid=$!
pids+=("$pid")
until_ready grep -q janitor "$tmp/got"
end TERM
pid=$server
