# SPDX-License-Identifier: MIT
# httpd serves files, and nothing else, to valid requests. It compares times: it needs a CPU.
. "$(dirname "$0")/lib.bash"
. "$(dirname "$0")/httpd.bash"

httpd=$build/examples/httpd
get() { curl -sS "$@"; }

for options in '--port 65536' '--timeout 0' --what x; do
	# shellcheck disable=SC2086
	"$httpd" $options 2>"$tmp/err"
	check_equal "status of $options" 2 $?
	grep -q '^usage:' "$tmp/err" || fail "no help after $options"
done
"$httpd" --root "$tmp/none" 2>"$tmp/err"
check_equal "status without a folder" 1 $?

if command -v curl >/dev/null; then
	make_files
	start "$httpd" --port 0 --root "$tmp/files"
	url=http://127.0.0.1:$port
	check_files
	check_equal "a new client" 200 "$(code --http2 "$url/small.txt")"

	mkfifo "$tmp/files/fifo"
	check_equal "a FIFO" 404 "$(code --max-time 5 "$url/fifo")"
	echo secret >"$tmp/files/secret"
	chmod 0 "$tmp/files/secret"
	if ! [ -r "$tmp/files/secret" ]; then
		check_equal "an unreadable file" 403 "$(code "$url/secret")"
		check_equal "HEAD of an unreadable file" 403 "$(code -I "$url/secret")"
	fi
	: >"$tmp/files/empty"
	check_equal "an empty file" "200 0" \
		"$(curl -sS -o "$tmp/got.4" -w '%{http_code} %{size_download}' "$url/empty")"

	# Its size is 0 for stat. The answer must not wait for more data.
	ln -s /proc/version "$tmp/files/version"
	if [ -r "$tmp/files/version" ]; then
		check_equal "a file without a size" "200 0 1" "$(curl -sS -o "$tmp/got.5" -w \
			'%{http_code} %{size_download} %{time_total}' "$url/version" |
			awk '{ print $1, $2, $3 < 0.15 }')"
	fi

	# Its size is 4096 for stat, and smaller for read.
	ln -s /sys/devices/system/cpu/online "$tmp/files/cpus"
	if [ -r "$tmp/files/cpus" ]; then
		curl -sS --fail --max-time 5 -o "$tmp/got.5" "$url/cpus" || fail "curl: $?"
		cmp "$tmp/files/cpus" "$tmp/got.5" || fail "another file"
	fi
	end TERM
fi

# A file is replaced by a larger one, or a smaller one, between stat and open.
# LeakSanitizer cannot work in a process that is traced, and makes it fail.
delay=(strace -D -f -qq -o /dev/null -e trace=newfstatat -e inject=newfstatat:delay_exit=10000
	-E "ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0")
if command -v curl >/dev/null && "${delay[@]}" true 2>/dev/null; then
	for n in 1000 5000; do
		(head -c $((n - 1)) /dev/zero | tr '\0' x && echo) >"$tmp/x$n"
	done
	start "${delay[@]}" "$httpd" --port 0 --root "$tmp/files"
	while :; do
		for n in 1000 5000; do
			ln -f "$tmp/x$n" "$tmp/files/next"
			mv "$tmp/files/next" "$tmp/files/changes"
			sleep 0.013
		done
	done &
	changer=$!
	pids+=("$changer")
	sleep 0.1
	url=http://127.0.0.1:$port/changes
	# shellcheck disable=SC2046
	curl -sS --fail $(for _ in $(seq 100); do echo "$url"; done) >"$tmp/got.6" ||
		fail "curl: $?"
	kill $changer
	wait $changer 2>/dev/null
	awk 'length != 999 && length != 4999 { exit 1 }' "$tmp/got.6" || fail "a part of a file"
	end TERM
fi

mkdir "$tmp/http"
ulimit -n 4096 2>/dev/null
compile_client httpclient
"$tmp/httpclient" "$tmp/http" -- "$httpd" --port 0 2>"$tmp/log" || fail "$(tail -8 "$tmp/log")"
