#!/bin/bash
# SPDX-License-Identifier: MIT
#
# A child made in a green thread by exec, system, popen, posix_spawn, fork or vfork has the
# program's signal mask, and ignores no signal that the program does not ignore.
. "$(dirname "$0")/lib.sh"
program exec_mask.c
want="SigBlk:	0000000000000800
SigIgn:	0000000000000000"
for how in system popen spawn fork vfork exec blocking-exec; do
	for procs in 1 2 4; do
		holds GMP_PROCS=$procs "$scratch/exec_mask" $how
		# glibc's posix_spawn ignores the two signals that it keeps for itself, 32 and 33
		sed -i 's/0000000180000000/0000000000000000/' "$scratch/out"
		[ "$(cat "$scratch/out")" = "$want" ] || { show; fail "$how with $procs Ps"; }
	done
done

# A program that replaces itself by exec and runs gmp again is still terminated by SIGTERM.
cat >"$scratch/again.c" <<'END'
#include <stdlib.h>
#include <unistd.h>
#include <gmp.h>

static char **args;

static void app(void *arg)
{
	(void)arg;
	if (!args[1])
		execl("/proc/self/exe", args[0], "again", (char *)NULL);
	if (write(1, "up\n", 3) != 3)
		exit(3);
	gmp_sleep(20 * GMP_S);
}

int main(int argc, char **argv)
{
	(void)argc;
	args = argv;
	return gmp_run(app, NULL, NULL);
}
END
program "$scratch/again.c"
mkfifo "$scratch/up"
env -i "$scratch/again" >"$scratch/up" &
pid=$!
read -r line <"$scratch/up"
[ "$line" = up ] || fail "the program did not come up again"
kill -TERM $pid
status=0
wait $pid || status=$?
[ $status = 143 ] || fail "SIGTERM: status $status"
