# SPDX-License-Identifier: MIT
# libcurl's blocking interface on green threads, against nginx.
. "$(dirname "$0")/lib.bash"

fetch=$build/examples/blocking_fetch
[ -x "$fetch" ] || { echo "blocking_fetch has not been built"; exit 77; }
command -v nginx >/dev/null || { echo "nginx is missing"; exit 77; }
make_web_files
start_nginx "$tmp/www"

url=http://127.0.0.1:$port
urls=() wanted=
for i in $(seq 50); do
	urls+=("$url/$i")
	wanted+="200	$((i * 100))	$url/$i"$'\n'
done
urls+=("http://localhost:$port/large") # a name that is looked up
wanted+="200	3000000	http://localhost:$port/large"
fetches "$wanted" "$fetch" "${urls[@]}"
timeout 60 "$fetch" "$url/1" http://127.0.0.1:1/ >"$tmp/answer" 2>"$tmp/complaint"
check_equal "status of a refused connection" 1 $?
check_equal "the other URL" "200	100	$url/1" "$(cat "$tmp/answer")"
exit 0
