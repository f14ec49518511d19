# SPDX-License-Identifier: MIT
# kvserver holds its limits against hostile clients. $2 is the architecture.
# It compares times: it needs half a CPU.
. "$(dirname "$0")/lib.bash"

kvserver=$build/examples/kvserver
arch=${2:-conn}

if ! has_arch "$arch"; then
	echo "skipped: built without libuv"
	exit 77
fi
ulimit -n 4096 2>/dev/null
compile_client kvhostile
"$tmp/kvhostile" -- "$kvserver" --arch "$arch" --port 0 2>"$tmp/log" ||
	fail "hostile clients: $(tail -5 "$tmp/log")"
