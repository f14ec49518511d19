# SPDX-License-Identifier: MIT
# Do the parts of kvserver work by themselves?
. "$(dirname "$0")/lib.bash"

cd "$source_dir" || fail "no source"
compile "$tmp/resp" tests/examples/resp.c tests/harness/main.c \
	examples/resp.c examples/buf.c -lcmocka
compile "$tmp/kvtable" tests/examples/kvtable.c tests/harness/main.c examples/kvtable.c \
	"$build/libgmprt.a" -lcmocka
compile "$tmp/siphash" tests/examples/siphash.c tests/harness/main.c -lcmocka
"$tmp/siphash" || fail "siphash"
"$tmp/resp" || fail "resp"
"$tmp/kvtable" || fail "kvtable"
