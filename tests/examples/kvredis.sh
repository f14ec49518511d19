# SPDX-License-Identifier: MIT
# kvserver answers as Redis does, byte for byte.  Both get the same requests.
. "$(dirname "$0")/lib.bash"

if ! command -v redis-server >/dev/null || ! command -v redis-cli >/dev/null; then
	echo "skipped: no redis-server"
	exit 77
fi

start_redis() {
	local i

	for i in $(seq 20); do
		redis_port=$((20000 + RANDOM % 20000))
		redis-server --port $redis_port --bind 127.0.0.1 --save '' --appendonly no \
			--dir "$tmp" >"$tmp/redis.log" 2>&1 &
		pids+=($!)
		for _ in $(seq 100); do
			kill -0 "${pids[-1]}" 2>/dev/null || break
			grep -q 'Ready to accept' "$tmp/redis.log" && return
			sleep 0.05
		done
	done
	fail "redis-server does not start"
}

# answers PORT FILE: what comes back until the server closes the connection.
answers() {
	local sender

	exec 3<>"/dev/tcp/127.0.0.1/$1"
	{ cat "$2" >&3; } 2>/dev/null &
	sender=$!
	timeout 30 cat <&3 2>/dev/null
	wait $sender
	exec 3>&-
}

# rounded: times to live, of which the requests set 100, 200 and 300 seconds; where others have had
# the CPU, one of the two servers may have come some seconds later to the question than the other.
rounded() {
	sed $'s/^:9[0-9]\r$/:100\r/; s/^:19[0-9]\r$/:200\r/; s/^:29[0-9]\r$/:300\r/'
}

compare() {
	answers "$redis_port" "$tmp/requests" | rounded >"$tmp/wanted"
	answers "$port" "$tmp/requests" | rounded >"$tmp/got"
	cmp "$tmp/wanted" "$tmp/got" && return
	diff -a "$tmp/wanted" "$tmp/got" | head -20 | cat -v
	fail "$1"
}

# Requests that are mostly good, in the long form and as lines.
random_requests() {
	awk -v seed="$1" -v n="$2" '
	function pick(list,    words, count) {
		count = split(list, words, " ")
		return words[1 + int(rand() * count)]
	}
	function key() {
		return rand() < 0.02 ? "" : pick("a b c d e f g h n m longer:key:0000000001")
	}
	function value() {
		if (rand() < 0.4)
			return int(rand() * 1000) - 500
		return pick("v 0 01 -0 +1 1.5 9223372036854775806 -9223372036854775808 x" \
			    " 9223372036854775808 a-value-that-is-somewhat-longer-than-the-others")
	}
	function seconds() { return pick("100 200 300 0 -1 x 9223372036854775807 1e3") }
	function add(text) { args[++argc] = text }
	function fill(    name, i) {
		argc = 0
		name = pick("SET SET set GET GET get DEL EXISTS INCR INCR MGET MSET EXPIRE TTL" \
			    " TTL DBSIZE PING ECHO FLUSHALL SELECT NOSUCH")
		add(name)
		name = toupper(name)
		if (name == "FLUSHALL" && rand() < 0.8)
			args[1] = "PING"
		else if (name ~ /^(GET|INCR|TTL|ECHO)$/)
			add(key())
		else if (name ~ /^(DEL|EXISTS|MGET)$/)
			for (i = 1 + int(rand() * 4); i > 0; i--)
				add(key())
		else if (name == "EXPIRE") {
			add(key()); add(seconds())
		} else if (name == "SELECT")
			add(pick("0 99 -1 x"))
		else if (name == "MSET")
			for (i = 1 + int(rand() * 3); i > 0; i--) {
				add(key()); add(value())
			}
		else if (name == "SET") {
			add(key()); add(value())
			while (rand() < 0.4) {
				add(pick("EX ex PX NX nx XX FOO"))
				if (toupper(args[argc]) ~ /X$/ && args[argc] ~ /^[EePp]/)
					add(rand() < 0.9 ? seconds() "" : "")
				if (toupper(args[argc - 1]) == "PX" && args[argc] > 0)
					args[argc] = args[argc] "000"
			}
		}
		if (rand() < 0.03)
			add(pick("more x"))
		else if (rand() < 0.03 && argc > 1)
			argc--
	}
	BEGIN {
		srand(seed)
		while (n-- > 0) {
			fill()
			if (rand() < 0.2) {
				for (i = 1; i <= argc; i++)
					printf "%s\"%s\"", (i > 1 ? " " : ""), args[i]
				printf "%s", (rand() < 0.5 ? "\r\n" : "\n")
				continue
			}
			printf "*%d\r\n", argc
			for (i = 1; i <= argc; i++)
				printf "$%d\r\n%s\r\n", length(args[i]), args[i]
		}
		printf "QUIT\r\n"
	}'
}

# Faults, each on a connection of its own.
faults() {
	cat <<'FAULTS'
*x\r\n
*\r\n
*1 \r\n
* 1\r\n
*2147483648\r\n
*1\r\nPING\r\n
*1\r\n\r\n
*1\r\n$\r\n
*1\r\n$x\r\n
*1\r\n$-1\r\n
*1\r\n$536870913\r\n
*0\r\n*-5\r\n\r\n*1\r\nx\r\n
SET k "v\r\n
SET k "v"w\r\n
SET k 'v\r\n
ECHO "a"\\'b'\r\n"
ECHO "\\x4a\\n\\q" 'it\\'s \\n'\r\nQUIT\r\n
nosuch 'a\\nb' "c\\nd" e f g\r\nQUIT\r\n
a "b\\x00c"\r\nQUIT\r\n
POST / HTTP/1.1\r\n\r\n
Host: x\r\n
QUIT now\r\n
FAULTS
}

check_arch() {
	local seed fault

	start "$build/examples/kvserver" --arch "$1" --port 0
	printf 'FLUSHALL\r\nQUIT\r\n' >"$tmp/requests"
	compare "$1: an empty table"
	for seed in 1 2 3 4 5; do
		random_requests $seed 4000 >"$tmp/requests"
		compare "$1: random requests, seed $seed"
	done
	while IFS= read -r fault; do
		# shellcheck disable=SC2059
		printf "$fault" >"$tmp/requests"
		compare "$1: $fault"
	done < <(faults)
	awk 'BEGIN { for (i = 0; i < 40; i++) words = words " word" i; print "nosuch" words
		print "QUIT" }' >"$tmp/requests"
	compare "$1: an unknown command with many arguments"
	end TERM
}

start_redis
for arch in conn owner reactor; do
	has_arch $arch && check_arch $arch
done
exit 0
