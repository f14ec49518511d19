# SPDX-License-Identifier: MIT
# gmp-top in a terminal: sizes, keys, a server that goes away, and the terminal afterwards.
. "$(dirname "$0")/../examples/lib.bash"

command -v python3 >/dev/null && command -v tmux >/dev/null || exit 77
top=$build/tools/gmp-top
folder=$source_dir/tests/tools/top

opened=0 # terminals, each with a tmux of its own

tm() {
	tmux -u -f /dev/null -S "$tmp/tmux$opened" "$@"
}

end_tmux() {
	tm kill-server 2>/dev/null
	clean_up
}
trap end_tmux EXIT

serve() {
	start python3 "$folder/server.py" "$@"
	server=$pid
}

# open ARGUMENT...: gmp-top in a terminal of 80 x 24. Its process is put into $viewer.
open() {
	rm -f "$tmp/status" "$tmp/viewer" "$tmp/stopped" "$tmp/continue"
	cat >"$tmp/pane" <<-END
		set -m
		stty -g >$tmp/before
		bash -c 'echo \$\$ >$tmp/viewer.new; mv $tmp/viewer.new $tmp/viewer; exec "\$@"' \
			- ${type:+env TERM=$type} $top $* 2>$tmp/complaint
		status=\$?
		if [ \$status = $((128 + $(kill -l TSTP))) ]; then
			stty -g >$tmp/stopped.new
			mv $tmp/stopped.new $tmp/stopped
			until [ -e $tmp/continue ]; do sleep 0.05; done
			fg >/dev/null
			status=\$?
		fi
		echo \$status >$tmp/status.new
		stty -g >$tmp/after
		mv $tmp/status.new $tmp/status
		exec sleep 1000
	END
	tm kill-server 2>/dev/null
	opened=$((opened + 1))
	LC_ALL=C.UTF-8 tm new-session -d -x 80 -y 24 "bash $tmp/pane" || fail "tmux: status $?"
	wait_until test -e "$tmp/viewer"
	viewer=$(cat "$tmp/viewer")
}

screen() {
	tm capture-pane -p
}

# wait_until COMMAND...: within half a minute
wait_until() {
	for _ in $(seq 600); do
		"$@" && return
		sleep 0.05
	done
	fail "not within 30 s: $*: $(screen)"
}

has() {
	screen | grep -q -- "$1"
}

has_not() {
	! has "$1"
}

# has_first A B: the first line that matches A or B matches A
has_first() {
	screen | grep -m 1 -e "$1" -e "$2" | grep -q -- "$1"
}

# has_ended PID: or is a zombie, whose new parent has not waited for it yet
has_ended() {
	! grep -qs '^State:.[^Z]' "/proc/$1/status"
}

size_is() {
	[ "$(screen | wc -l)" = "$1" ]
}

# resize COLUMNS ROWS
resize() {
	tm resize-window -x "$1" -y "$2"
}

# ends STATUS: and the terminal is as it was
ends() {
	wait_until test -e "$tmp/status"
	check_equal "exit status" "$1" "$(cat "$tmp/status")"
	check_equal "terminal settings" "$(cat "$tmp/before")" "$(cat "$tmp/after")"
	check_equal "alternate screen, cursor, keypad" "0 1 0" \
		"$(tm display -p '#{alternate_on} #{cursor_flag} #{keypad_flag}')"
}

serve run
open -d 0.1 "$port"
wait_until has 'switches *1.00M'
has '^gmp-top 127.0.0.1:[0-9]*  every 100 ms' || fail "title: $(screen)"
has '^pid 4711  gmp 0.2.0  run 1  up ' || fail "head: $(screen)"
has '^q quit .* arrows scroll' || fail "last line: $(screen)"
has '^ *0 running .* 750k  *\[#*\]$' || fail "bar: $(screen)"
has_not janitor || fail "the last line is visible: $(screen)"

# Sizes; of the smallest the program must only survive. tmux changes the size of its window at once,
# and notifies the program later: what is shown in between does not count.
resize 40 10
wait_until has '^q quit  h help  p pause  c CPU  w waits *$'
size_is 10 || fail "40 x 10: $(screen)"
wait_until has '^gmp-top '
tm send-keys End
wait_until has ' 2 .* sleep$'
wait_until has '^gmp-top '
tm send-keys Home
wait_until has '^pid 4711'
tm send-keys NPage
wait_until has_not '^pid 4711'
tm send-keys PPage
wait_until has '^pid 4711'
tm send-keys Down
wait_until has_not '^pid 4711'
tm send-keys Up
wait_until has '^pid 4711'
for size in '1 1' '2 2' '3 3' '10 4' '500 200'; do
	resize $size
	tm send-keys Down Up
done
wait_until has janitor
resize 200 60
wait_until size_is 60
wait_until has '^q quit'
wait_until has ' 3 .* read from descriptor  accept  *listener$'
wait_until has ' 2 .* sleep  *-  *janitor$'

# Keys.
has_first 'BY CPU TIME (since' 'BY PRESENT WAIT' || fail "order: $(screen)"
tm send-keys c
wait_until has 'BY CPU TIME (all)'
tm send-keys w
wait_until has_first 'BY PRESENT WAIT (longest' 'BY CPU TIME'
tm send-keys w
wait_until has 'BY PRESENT WAIT (by ID)'
tm send-keys c
wait_until has_first 'BY CPU TIME (all)' 'BY PRESENT WAIT'
tm send-keys p
wait_until has 'PAUSED'
requests=$(grep -c GET "$tmp/out")
tm send-keys +
wait_until has 'every 200 ms  PAUSED'
tm send-keys h
wait_until has '^gmp-top: keys'
check_equal "requests while paused" "$requests" "$(grep -c GET "$tmp/out")"
tm send-keys h
wait_until has PAUSED
tm send-keys p
wait_until has_not PAUSED
tm send-keys -
wait_until has 'every 100 ms'

# The server goes away and comes back; the terminal shows both.
kill "$server"
wait "$server" 2>/dev/null
wait_until has 'Connection refused; trying again'
has janitor || fail "the last sample is gone: $(screen)"
serve run "$port"
wait_until has_not 'trying again'
wait_until has 'switches *1.00M'
tm send-keys q
ends 0

# Signals, and a server without an answer.
open "$port"
wait_until has '^pid 4711'
tm send-keys C-c
ends 0
open -d 60 "$port"
wait_until has '^pid 4711'
kill -TERM "$viewer"
ends 0
open -n 2 -d 0.1 "$port"
ends 0
serve silent
open "$port"
wait_until has "^gmp-top 127.0.0.1:$port"
tm send-keys q
ends 0
open "$port"
ends 1
grep -q 'no complete answer within 5 s' "$tmp/complaint" || fail "$(cat "$tmp/complaint")"

# Stopped, and continued by the shell.
serve run
open -d 0.1 "$port"
wait_until has '^pid 4711'
tm send-keys C-z
wait_until test -e "$tmp/stopped"
check_equal "terminal settings while stopped" "$(cat "$tmp/before")" "$(cat "$tmp/stopped")"
check_equal "alternate screen, cursor, keypad while stopped" "0 1 0" \
	"$(tm display -p '#{alternate_on} #{cursor_flag} #{keypad_flag}')"
: >"$tmp/continue"
wait_until has '^pid 4711'
tm send-keys q
ends 0

# The terminal is closed. The kernel's second SIGHUP kills the thread by which LeakSanitizer looks
# for leaks, and LeakSanitizer then spins.
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 open -d 60 "$port"
wait_until has '^pid 4711'
tm kill-server
wait_until has_ended "$viewer"

# Names that try to reach the terminal.
serve hostile.json
open "$port"
title=$(tm display -p '#{pane_title}')
wait_until has '^ *0 .u001b'
tm send-keys End
wait_until has 'esc.u001b.0;title.u0007 *nul.u0000nul$'
has 'right.u202eleft *c1.u009bm.u000atail$' || fail "names: $(screen)"
check_equal "title of the terminal" "$title" "$(tm display -p '#{pane_title}')"
tm send-keys q
ends 0

type=no-such-terminal
open "$port"
ends 1
grep -q 'set TERM' "$tmp/complaint" || fail "$(cat "$tmp/complaint")"
