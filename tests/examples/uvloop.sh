# SPDX-License-Identifier: MIT
# A libuv loop inside a green thread: its callbacks and green threads serve many clients at once.
. "$(dirname "$0")/lib.bash"

[ -x "$build/examples/uvloop" ] || { echo "uvloop has not been built: no libuv"; exit 77; }

one_client() {
	local i line

	exec 3<>"/dev/tcp/127.0.0.1/$port" || return 1
	for i in $(seq 20); do
		echo "client $1 line $i" >&3
		read -r -t 20 line <&3 || return 1
		[ "$line" = "CLIENT $1 LINE $i" ] || return 1
	done
}

for procs in 1 2; do
	export GMP_PROCS=$procs
	start "$build/examples/uvloop" --port 0
	clients=()
	for i in $(seq 20); do
		one_client "$i" &
		clients+=($!)
	done
	for client in "${clients[@]}"; do
		wait "$client" || fail "a client got something else"
	done
	exec 4<>"/dev/tcp/127.0.0.1/$port" # is still there at the end
	end TERM
	exec 4>&-
done

# Requests that are under way at the end: each is answered or dropped, and none is leaked
# (AddressSanitizer).
for i in $(seq 10); do
	start "$build/examples/uvloop" --port 0
	exec 3<>"/dev/tcp/127.0.0.1/$port"
	for line in $(seq 40); do
		echo "line $line" >&3
	done
	sleep "0.00$i"
	end TERM
	exec 3>&-
done
