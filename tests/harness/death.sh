#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Checks that a program dies with the expected message and status.
#
#   death.sh PROGRAM EXPECT
#
# Lines of EXPECT (# begins a comment):
#   1  an extended regular expression for the first line of stderr
#   2  the end: an exit status ("2") or a signal ("SIGABRT")
#   further lines: expressions that a line of stderr must match, or, after "! ", no line may match
set -u
export LC_ALL=C
prog=$1 expect=$2
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT

# The sanitizers leave the signals to the program.
own=handle_segv=0:handle_abort=0:handle_sigbus=0
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:$own:detect_leaks=0"
export TSAN_OPTIONS="${TSAN_OPTIONS:-}:$own"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-}:$own"
ulimit -c 0

# A separate shell: its message about a signal is captured, too, and removed below.
sh -c '"$0"; exit $?' "$prog" >"$tmp/out" 2>"$tmp/all" </dev/null
status=$?
[ $status != 77 ] || exit 77 # the system cannot provide what the program tests
# Remove the messages of the shell and the sanitizers.
grep -Ev '^(Aborted|Segmentation fault|Killed|Terminated|==[0-9]+==)' "$tmp/all" >"$tmp/err"

failed=0
bad() {
	echo "$1"
	failed=1
}

matches() { grep -Eq -e "$1" "$2"; }

grep -v '^#' "$expect" >"$tmp/expect" || { echo "$expect: empty"; exit 1; }
first=$(sed -n 1p "$tmp/expect")
ending=$(sed -n 2p "$tmp/expect")
[ -n "$ending" ] || { echo "$expect: the second line must name the exit status or signal"; exit 1; }

printf '%s\n' "$(head -n 1 "$tmp/err")" >"$tmp/first"
matches "$first" "$tmp/first" || bad "first line does not match: $first"

end=$status
[ "$status" -le 128 ] || end=SIG$(kill -l $((status - 128)))
[ "$end" = "$ending" ] || bad "ends with $end instead of $ending"

sed 1,2d "$tmp/expect" >"$tmp/more"
while IFS= read -r line; do
	case $line in
	'') ;;
	'! '*) if matches "${line#! }" "$tmp/err"; then bad "a line matches: ${line#! }"; fi ;;
	*) matches "$line" "$tmp/err" || bad "no line matches: $line" ;;
	esac
done <"$tmp/more"

if [ $failed = 1 ]; then
	echo "--- stderr of $prog:"
	cat "$tmp/all"
fi
exit $failed
