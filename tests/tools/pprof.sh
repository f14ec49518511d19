#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Tests that protoc and go tool pprof read the profiles of a program, and that these have the names,
# values and source positions of it.
#
#   pprof.sh PROGRAM PROTO
set -euo pipefail
export LC_ALL=C
program=$1 proto=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

# has PATTERN: fails unless a line of the output matches
has() {
	grep -Eq -e "$1" "$tmp/out" && return
	echo "$what: no line matches: $1"
	failed=1
}

status=0
"$program" "$tmp" || status=$?
if [ $status = 77 ]; then
	echo "no protobuf-c"
	exit 77
fi
[ $status = 0 ] || { echo "$program: status $status"; exit 1; }

# line FUNCTION TEXT: the line of the source at which the function has the text
line() {
	awk -v f="$1(" -v text="$2" 'index($0, f) && !/;/ { on = 1 } on && index($0, text) {
		print NR; exit }' "$(dirname "$0")/pprof_target.c"
}

if command -v protoc >/dev/null; then
	for kind in cpu wait mutex green; do
		what="protoc, $kind"
		protoc --decode=gmp.pprof.Profile --proto_path="$(dirname "$proto")" \
			"$(basename "$proto")" <"$tmp/$kind.pb" >"$tmp/out" ||
			{ echo "$what: not decoded"; exit 1; }
		has '^sample_type \{'
		has '^  location_id: [1-9]'
		has '^  filename: [1-9]'
		has '^  memory_start: [1-9]'
		has '^string_table: "entry"$'
		has '^time_nanos: [1-9][0-9]{18}$'
	done
	what='protoc, strings'
	protoc --decode_raw <"$tmp/cpu.pb" >"$tmp/out"
	has '^6: "burn_cpu"$'
	has '^6: "burn_entry"$'
	has '^6: "green thread"$'
	has '^6: "burns"$'
	has '^6: "nanoseconds"$'
else
	echo "no protoc"
fi

command -v go >/dev/null || { echo "no go: its pprof is not tried"; exit $failed; }

# From 1.25 on, Go builds it when it is first used.  Without optimization, debug information and
# HTTP/2, and with less garbage collection of the compiler, that takes a third less.
pprof=$(go env GOTOOLDIR)/pprof
if [ ! -x "$pprof" ]; then
	pprof=$tmp/pprof
	CGO_ENABLED=0 GOGC=400 go build -tags nethttpomithttp2 -gcflags='all=-N -l -dwarf=false' \
		-ldflags='-s -w' -o "$pprof" cmd/pprof
fi

# pprof KIND OPTIONS...
pprof() {
	what="go tool pprof ${*:2}, $1"
	PPROF_TMPDIR=$tmp "$pprof" "${@:2}" "$tmp/$1.pb" >"$tmp/out" 2>"$tmp/err" || {
		echo "$what: fails"
		cat "$tmp/err"
		exit 1
	}
}

pprof cpu -top
has '^Type: cpu$'
has '^ +[0-9.]+m?s +[0-9.]+% +[0-9.]+% +[0-9.]+m?s +[0-9.]+% +burn_cpu$'
pprof cpu -top -sample_index=samples
has ' burn_cpu$'
pprof cpu -traces
has '^ *green thread: +burns$'
has '^ *entry: +burn_entry$'
has ' burn_cpu$'
pprof cpu -tags
has ' burns$'

pprof wait -top -sample_index=waits
has '^Type: waits$'
pprof wait -peek 'wait_for_job|take_lock' -sample_index=waits
has '^ +0 +0% .* 3 +[0-9.]+% +[|] +wait_for_job$'
has '^ +0 +0% .* 3 +[0-9.]+% +[|] +take_lock$'
pprof wait -traces
has '^ *reason: +channel receive$'
has '^ *green thread: +waits$'

pprof mutex -traces -sample_index=waits
has '^ *holder: +holds$'
has '^ *reason: +mutex lock$'
has '^ *entry: +lock_entry$'

pprof green -traces
has '^ *state: +waiting: channel receive$'
has '^ +3 +wait_entry$'
has '^ +3 +lock_entry$'

# Positions need libdw.
pprof cpu -list 'burn_cpu$'
if grep -q pprof_target.c "$tmp/out"; then
	pprof wait -traces -lines
	has " wait_for_job .*pprof_target[.]c:$(line wait_for_job gmp_chan_recv)\$"
	pprof cpu -traces -lines
	has " burn_entry .*pprof_target[.]c:$(line burn_entry 'burn_cpu()')\$"
else
	echo "no source positions: not tested"
fi
[ $failed = 0 ] || { cat "$tmp/out"; exit 1; }
