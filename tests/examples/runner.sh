# SPDX-License-Identifier: MIT
# runner prints the output of commands in order, feeds them, and kills them at the deadline.
. "$(dirname "$0")/lib.bash"

runner=$build/examples/runner

for procs in 1 2 4; do
	export GMP_PROCS=$procs

	# The later commands end first.
	got=$(timeout 30 "$runner" --limit 3 \
		'sleep 0.1; echo 1; echo e >&2' 'sleep 0.05; echo 2' 'echo 3' 'echo 4') ||
		fail "status $?"
	check_equal "output in order, $procs Ps" "1
e
2
3
4" "$got"

	# Input and output that are larger than a pipe, both ways at once; and a command that reads
	# nothing.
	head -c 3000000 /dev/urandom >"$tmp/large"
	timeout 30 "$runner" --input "$tmp/large" cat true cat >"$tmp/got" ||
		fail "status with input: $?"
	cat "$tmp/large" "$tmp/large" | cmp - "$tmp/got" || fail "input is not output, $procs Ps"

	# Commands that fail.
	timeout 30 "$runner" 'echo a' 'exit 3' 'kill -KILL $$' 'echo b' >"$tmp/got" 2>"$tmp/err"
	check_equal "status after failures" 1 $?
	check_equal "output beside failures" "a
b" "$(cat "$tmp/got")"
	check_equal "failures" "runner: exit 3: exit status 3
runner: kill -KILL \$\$: signal 9" "$(cat "$tmp/err")"

	[ $procs = 2 ] && continue

	# The deadline, also for what a command has started and for commands that have not begun.
	began=$SECONDS
	timeout 30 "$runner" --seconds 1 --limit 2 \
		'echo early; sleep 100 & wait' 'trap "" TERM; sleep 100' 'echo late' \
		>"$tmp/got" 2>"$tmp/err"
	check_equal "status after the deadline" 1 $?
	[ $((SECONDS - began)) -lt 20 ] || fail "the deadline was ignored"
	check_equal "output before the deadline" early "$(cat "$tmp/got")"
	check_equal "lines about the deadline" 3 "$(grep -c ': no time left$' "$tmp/err")"
done

# A command can be interrupted: it has the mask of the program, not that of an M.
timeout 30 "$runner" 'kill -TERM $$; echo not reached' >"$tmp/got" 2>"$tmp/err"
check_equal "SIGTERM in a command" \
	"runner: kill -TERM \$\$; echo not reached: signal 15" "$(cat "$tmp/err")"

timeout 30 "$runner" --input /nowhere/x cat 2>"$tmp/err" && fail "an input that is not there"
timeout 30 "$runner" --limit x cat 2>/dev/null
check_equal "status of a bad option" 2 $?
