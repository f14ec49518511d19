# SPDX-License-Identifier: MIT
# libcurl's multi interface over gmp_poll, against nginx, or if that is missing against httpd.
. "$(dirname "$0")/lib.bash"

fetch=$build/examples/fetch
[ -x "$fetch" ] || { echo "fetch has not been built: no libcurl"; exit 77; }
make_web_files

if command -v nginx >/dev/null; then
	start_nginx "$tmp/www"
elif [ -x "$build/examples/httpd" ]; then
	start "$build/examples/httpd" --port 0 "$tmp/www"
else
	echo "nginx is missing, and httpd has not been built"
	exit 77
fi

url=http://127.0.0.1:$port
urls=() wanted=
for i in $(seq 50); do
	urls+=("$url/$i")
	wanted+=$(printf '200 %9d %s' "$((i * 100))" "$url/$i")$'\n'
done
urls+=("$url/large")
wanted+=$(printf '200 %9d %s' 3000000 "$url/large")
fetches "$wanted" "$fetch" "${urls[@]}"
got=$(timeout 60 "$fetch" "$url/missing" | cut -c 1-3)
check_equal "a file that is not there" 404 "$got"
timeout 60 "$fetch" http://127.0.0.1:1/ "$url/1" >"$tmp/answer" 2>"$tmp/complaint"
check_equal "status of a refused connection" 1 $?
check_equal "the other transfer" 1 "$(grep -c '^200 ' "$tmp/answer")"
kill -TERM "$pid"
wait "$pid" 2>/dev/null
exit 0
