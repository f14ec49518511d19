#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A server with a thread for each of 200 connections gives the same answers natively and under
# gmp-run; there the connections need no OS threads.
#
#   run_echo.sh BUILD
set -euo pipefail
build=$1
echo=$build/tests/posix_echo
run=$build/tools/gmp-run
connections=200
"$run" "$echo" 2>&1 | grep -q 'not supported here' && exit 77
# serve COMMAND...: starts a server, and runs the client
serve() {
	coproc SERVER { exec "$@" "$echo" server; }
	local pid=$SERVER_PID in=${SERVER[1]} port
	read -r port <&"${SERVER[0]}"
	"$echo" client "$port" $connections "$pid" || exit 1
	exec {in}>&-
	wait "$pid"
}
native=$(serve env)
[ "$(echo "$native" | head -n 1)" = "right $((connections * 20))" ]
[ "$(echo "$native" | sed -n 's/threads //p')" -gt $connections ]
for procs in 1 2 4; do
	green=$(serve "$run" --procs $procs)
	[ "$(echo "$green" | head -n 1)" = "$(echo "$native" | head -n 1)" ]
	threads=$(echo "$green" | sed -n 's/threads //p')
	echo "$procs Ps: $threads OS threads"
	# sysmon replaces an OS thread that loses its CPU, so a busy machine needs some spare ones;
	# without its replacement read blocks an OS thread
	nm -D --defined-only "$build/libgmprt_posix.so" | grep -q ' read$' || continue
	[ "$threads" -le $((procs + 16)) ]
done
