#!/bin/bash
# SPDX-License-Identifier: MIT
#
# The server of README.md compiles without changes, and echoes to a client.
#
# usage: readme.sh CC INCLUDE_DIR LIBRARY README
set -euo pipefail
cc=$1 include=$2 library=$3 readme=$4
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$dir"' EXIT

awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on' "$readme" >"$dir/echo.c"
$cc -Wall -Wextra -Werror -O1 -I "$include" "$dir/echo.c" -o "$dir/echo" "$library" -pthread

for port in 47100 47101 47102 47103; do
	"$dir/echo" 127.0.0.1:$port 2>"$dir/log" &
	server=$!
	for ((i = 0; i < 200; i++)); do
		if (exec 3<>/dev/tcp/127.0.0.1/$port) 2>/dev/null; then
			break 2
		fi
		kill -0 $server 2>/dev/null || break # the port is taken: the next one
		sleep 0.05
	done
	wait $server || true
	server=
done
[ -n "$server" ] || {
	cat "$dir/log" >&2
	exit 1
}
exec 3<>/dev/tcp/127.0.0.1/$port
echo "hello, green threads" >&3
read -rt 10 answer <&3
[ "$answer" = "hello, green threads" ]
