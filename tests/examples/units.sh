# SPDX-License-Identifier: MIT
# Unit tests of the parsers and the table of the example servers.
. "$(dirname "$0")/lib.bash"

cd "$source_dir" || fail "no source"
compile "$tmp/resp" tests/examples/resp.c tests/harness/main.c \
	examples/resp.c examples/buf.c -lcmocka
compile "$tmp/kvtable" tests/examples/kvtable.c tests/harness/main.c examples/kvtable.c \
	"$build/libgmprt.a" -lcmocka
compile "$tmp/siphash" tests/examples/siphash.c tests/harness/main.c -lcmocka
"$tmp/siphash" || fail "siphash"
compile "$tmp/http" tests/examples/http.c tests/harness/main.c \
	examples/http.c examples/buf.c -lcmocka
"$tmp/http" || fail "http"
"$tmp/resp" || fail "resp"
"$tmp/kvtable" || fail "kvtable"
