# SPDX-License-Identifier: MIT
# Checks that the tests of httpd share, with and without TLS. Sourced after lib.bash by a test that
# defines get: curl with the options that the server needs.

# code OPTION... URL: the status of the answer.
code() { get -o /dev/null -w '%{http_code}' --path-as-is "$@"; }

# make_files: $tmp/files with the files that check_files gets.
make_files() {
	mkdir "$tmp/files"
	head -c 3000000 /dev/urandom >"$tmp/files/large"
	echo small >"$tmp/files/small.txt"
}

# check_files: three files over one connection to $url, and requests that are refused.
check_files() {
	get --fail -o "$tmp/got.1" "$url/large" -o "$tmp/got.2" "$url/small.txt" \
		-o "$tmp/got.3" "$url/large" -w '%{num_connects} ' >"$tmp/connects" ||
		fail "curl: $?"
	check_equal "connections for three files" "1 0 0 " "$(cat "$tmp/connects")"
	cmp "$tmp/files/large" "$tmp/got.1" || fail "another file"
	cmp "$tmp/files/small.txt" "$tmp/got.2" || fail "another file"
	cmp "$tmp/files/large" "$tmp/got.3" || fail "another file"
	check_equal "HEAD" 200 "$(code -I "$url/large")"
	check_equal "no file" 404 "$(code "$url/none")"
	check_equal "a post" 405 "$(code -d x=y "$url/")"
	check_equal "the folder above" 403 "$(code "$url/../out")"
	check_equal "a post of much" 413 "$(code -d @"$tmp/files/large" "$url/")"
	check_equal "an old client" 200 "$(code -0 "$url/small.txt")"
}
