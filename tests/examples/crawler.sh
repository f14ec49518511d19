# SPDX-License-Identifier: MIT
# crawler finds every page once, keeps to its limits, and survives what servers send.
# It compares times: it needs a CPU.
. "$(dirname "$0")/lib.bash"

crawler=$build/examples/crawler
httpd=$build/examples/httpd

for options in '' 'http://' 'ftp://x/' 'x' 'http://a/b c' '--limit 0 http://x/' \
	'--seconds x http://x/' '--what http://x/' 'http://x/ http://y/'; do
	# shellcheck disable=SC2086
	"$crawler" $options 2>"$tmp/err"
	check_equal "status of '$options'" 2 $?
	grep -q '^usage:' "$tmp/err" || fail "no help after '$options'"
done
"$crawler" http://127.0.0.1:1/ >"$tmp/out" 2>&1
check_equal "status without a server" 1 $?
"$crawler" http://127.0.0.1:99999/ >"$tmp/out" 2>&1
check_equal "status without a port" 1 $?

# A tree: each page leads to its children, to its parent, to the root, and to a missing page.
page() { # page NAME DEPTH
	local name=$1 depth=$2 i
	{
		echo "<html><a href=\"/\">root</a> <a href='$name.html#top'>self</a>"
		echo "<a href=none$name>none</a> <a href=\"missing-$name\">missing</a>"
		echo "<a HREF=\"../tree/index.html\">index</a>"
		for i in 1 2 3; do
			[ "$depth" = 0 ] || echo "<p><a class=x href=\"./$name$i.html\">$i</a>"
		done
	} >"$tmp/site/tree/$name.html"
	for i in 1 2 3; do
		[ "$depth" = 0 ] || page "$name$i" $((depth - 1))
	done
}

if [ -x "$httpd" ]; then
	mkdir -p "$tmp/site/tree"
	page a 4 # 121 pages
	echo '<a href="/tree/a.html">a</a>' >"$tmp/site/tree/index.html"
	echo '<a href="tree">the tree</a>' >"$tmp/site/index.html"
	start "$httpd" --port 0 --root "$tmp/site"
	for limit in 1 3 100; do
		"$crawler" --limit "$limit" "http://127.0.0.1:$port" >"$tmp/crawled" ||
			fail "status $?"
		# 121, the two indices, the root once more and the redirect from tree to tree/
		check_equal "pages with limit $limit" "$(
			{
				cd "$tmp/site" && find tree -name '*.html' | sed 's|^|/|'
				printf '/\n/tree/\n'
			} | sort
		)" "$(sed -n 's/^200 [0-9]* //p' "$tmp/crawled" | sort)"
		check_equal "redirects" "/tree" "$(sed -n 's/^30[0-9] [0-9]* //p' "$tmp/crawled")"
		check_equal "missing" 121 "$(grep -c '^404 .*/missing-' "$tmp/crawled")"
		grep -q '^crawler: 125 good, 121 bad, 0 not seen' "$tmp/crawled" ||
			fail "$(tail -1 "$tmp/crawled")"
	done
	"$crawler" --most 10 "http://127.0.0.1:$port/" >"$tmp/crawled" || fail "status $?"
	check_equal "pages at most" 10 "$(grep -vc '^crawler' "$tmp/crawled")"
	"$crawler" "http://127.0.0.1:$port/none" >"$tmp/crawled"
	check_equal "status when the first is missing" 1 $?
	end TERM
fi

compile "$tmp/crawlpeer" "$source_dir/tests/examples/crawlpeer.c"
start "$tmp/crawlpeer"
# /stall takes as long as it may; the others take no time, unless the machine is busy
"$crawler" --page-seconds 5 "http://127.0.0.1:$port" >"$tmp/crawled" || fail "status $?"
check_equal "what it makes of them" "200 /
200 /endless
200 /half
200 /links
200 /links?d=../e
200 /lying
200 /plain
204 /empty
302 /circle
404 /links?a=b
Connection timed out: /stall
no answer of HTTP: /close
no answer of HTTP: /garbage
no answer of HTTP: /short" "$(grep -v '^crawler' "$tmp/crawled" |
	sed 's/^\([0-9]*\) [0-9]*/\1/' | sort)"
grep -q '^crawler: 9 good, 5 bad, 0 not seen' "$tmp/crawled" || fail "$(tail -1 "$tmp/crawled")"

# a page that stalls uses up the limit of 1 until the deadline; others may have come before it
begun=$(date +%s)
"$crawler" --limit 1 --seconds 2 --page-seconds 1000 "http://127.0.0.1:$port" >"$tmp/crawled"
check_equal "status after the deadline" 3 $?
[ $(($(date +%s) - begun)) -lt 30 ] || fail "it continued after the deadline"
grep -q '^crawler: [0-9]* good, [0-9]* bad, [1-9][0-9]* not seen.*the deadline has passed' \
	"$tmp/crawled" ||
	fail "$(tail -1 "$tmp/crawled")"
# links that collide in an unkeyed hash do not keep the crawler past its deadline
begun=$(date +%s)
"$crawler" --limit 64 --seconds 3 "http://127.0.0.1:$port/deep" >"$tmp/crawled"
check_equal "status with links that collide" 3 $?
[ $(($(date +%s) - begun)) -lt 9 ] || fail "links that collide take $(($(date +%s) - begun)) s"

check_equal "what the server says" "" "$(cat "$tmp/err")"
