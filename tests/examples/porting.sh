# SPDX-License-Identifier: MIT
# The server of docs/porting.md serves clients the same before and after the port, the code of the
# page is that of examples/porting, and its messages are those of GMP_DEBUG=check.
. "$(dirname "$0")/lib.bash"

page=$source_dir/docs/porting.md

# ------------------------------------------------------------------ the two servers

# ask N LINE...: sends the lines on a new connection and prints N lines of answer.
ask() {
	local n=$1 line

	shift
	exec 3<>"/dev/tcp/127.0.0.1/$port" || return 1
	printf '%s\n' "$@" >&3
	for _ in $(seq "$n"); do
		read -r -t 10 line <&3 || return 1
		echo "$line"
	done
	exec 3>&-
}

# session: what one client sees, and a second client that waits for the first one's message.
session() {
	local long waiter i

	long=$(head -c 100000 /dev/zero | tr '\0' x)
	ask 3 'post one' 'get 1' 'get x' || return 1
	ask 1 'nonsense' || return 1
	ask 1 'get 2' || return 1 # not posted: none after a second
	ask 1 'get 2' >"$tmp/waiter" &
	waiter=$!
	ask 1 'post two' || return 1
	wait $waiter || return 1
	cat "$tmp/waiter"
	ask 1 "post $long" || return 1
	ask 1 'get 3' | cksum
	for i in $(seq 20); do
		ask 1 "post many $i" >/dev/null &
		pids+=($!)
	done
	for i in $(seq 20); do
		ask 1 "get $((3 + i))" >"$tmp/many.$i" || return 1
	done
	cat "$tmp"/many.* | sort
}

wanted="1
one
none
what?
none
2
two
3
$( (head -c 100000 /dev/zero | tr '\0' x; echo) | cksum)
$(for i in $(seq 20); do echo "many $i"; done | sort)"

# Both servers end while a connection is open; the system takes its buffers back.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
for side in threads green; do
	: >"$tmp/log.$side"
	start "$build/examples/porting_$side" 0 "$tmp/log.$side"
	check_equal "answers of $side" "$wanted" "$(session)"
	check_equal "lines of the log of $side" 23 "$(wc -l <"$tmp/log.$side")"
	exec 4<>"/dev/tcp/127.0.0.1/$port" # is still there at the end
	end TERM
	exec 4>&-
done
cmp <(sort "$tmp/log.threads") <(sort "$tmp/log.green") || fail "the logs differ"

# ------------------------------------------------------------------- stdio

# A client that sends much and reads late: the server's writes wait.
lines=100000
start "$build/examples/porting_stdio" 0
check_equal "answers of stdio" "1 one
2 two" "$(ask 2 one two)"
exec 3<>"/dev/tcp/127.0.0.1/$port"
seq "$lines" >&3 &
sender=$!
sleep 0.3
head -n "$lines" <&3 | cmp - <(seq "$lines" | sed 's/.*/& &/') || fail "answers to a late reader"
wait $sender
end TERM # with a connection open
exec 3>&-

# ------------------------------------------------------------------- the page

# Each block of C on the page is in one of the programs, line for line.
python3 - "$page" "$source_dir"/examples/porting/*.c <<'END' || fail "code of docs/porting.md"
import re
import sys

page, *programs = [open(name, encoding="utf-8").read() for name in sys.argv[1:]]
blocks = re.findall(r"^```c\n(.*?)^```$", page, re.M | re.S)
missing = [b for b in blocks if not any(b in p for p in programs)]
for b in missing:
	print("in no program of examples/porting:\n" + b, file=sys.stderr)
sys.exit(len(blocks) < 5 or bool(missing))
END

# Its messages: without numbers, addresses and what depends on debugging information.
[ -x "$build/examples/porting_wrong" ] || exit 0 # sanitizers
plain() {
	sed -E 's/0x[0-9a-f]+/N/g; s/ \(wrong\.c:[0-9]+\)//g; s/ \(porting_wrong\+N\)//g
		s/\(pipe:\[[0-9]+\]\)//; s/\+N//g; s/[0-9]+/N/g
		s/N of N ms/N ms/; s/"(first|second)"/NAME/g'
}
grep -E '^    (gmp: |     )' "$page" | sed 's/^    //' | plain >"$tmp/page"
# finds MISTAKE PATTERN: the first finding that PATTERN matches, and what it says to do, are on the
# page.
finds() {
	GMP_DEBUG=check "$build/examples/porting_wrong" "$1" 2>"$tmp/err" >"$tmp/out"
	grep -E -A 1 -m 1 "^gmp: .*($2)" "$tmp/err" | plain >"$tmp/seen"
	[ "$(wc -l <"$tmp/seen")" = 2 ] || fail "$1: not found in: $(cat "$tmp/err")"
	while IFS= read -r line; do
		grep -qxF -- "$line" "$tmp/page" || fail "$1: not on the page: $line"
	done <"$tmp/seen"
}
finds computes 'computed for|was not given a CPU' # the second beside other load
finds blocks 'sleeps in the kernel in read'
finds mutex 'pthread mutex held'
finds thread-local 'wrote thread-local'
finds key 'set pthread key'
finds errno 'holds the address of a thread-local'
finds overflow 'stack overflow'
