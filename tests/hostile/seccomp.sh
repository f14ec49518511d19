#!/bin/bash
# SPDX-License-Identifier: MIT
#
# If a seccomp filter rejects one system call with EPERM or ENOSYS, before or during the run, gmp
# works without it or ends with an error.
. "$(dirname "$0")/lib.sh"
need_shared
[ "$(uname -m)" = x86_64 ] || skip "numbers of x86-64"
program seccomp.c

# gmp, libc or the program cannot work without these calls: the run may fail, but not hang. close
# mmap mprotect rt_sigaction pwrite64 socket connect sendto recvfrom bind listen getsockname
# getpeername setsockopt getsockopt epoll_wait epoll_ctl accept4 eventfd2 epoll_create1 clone3
vital=" 3 9 10 13 18 41 42 44 45 49 50 51 52 54 55 232 233 288 290 291 435 "
# Without them a process cannot wait or end: exit futex exit_group rseq
skipped=" 60 202 231 334 "

for number in $(seq 0 334) $(seq 424 462); do
	case $skipped in *" $number "*) continue ;; esac
	for error in 1 38; do
		# 324, membarrier: a run that started with it cannot continue without it
		[ $number = 324 ] || echo "late $number $error"
		echo "early $number $error"
	done
done | xargs -P 4 -n 300 "$scratch/seccomp" each >"$scratch/failures" || fail "seccomp each"
while read -r when number error status message; do
	case $status in
	77) echo "no filters here" ;;
	1 | 134) case $vital in *" $number "*) continue ;; esac ;;
	esac
	echo "$when: system call $number, errno $error: status $status: $message"
done <"$scratch/failures" >"$scratch/bad"
! grep -q "no filters here" "$scratch/bad" || skip "no seccomp filters"
[ ! -s "$scratch/bad" ] || { cat "$scratch/bad"; fail "system calls that gmp should do without"; }
for error in 1 13 38; do
	dies "the kernel refuses epoll_ctl(2)" "$scratch/seccomp" idle 233 $error
done
for error in 1 38; do
	dies "the kernel refuses membarrier(2)" "$scratch/seccomp" late 324 $error
	dies "the kernel refuses epoll_wait(2)" "$scratch/seccomp" early 232 $error
	# 271, ppoll: a dump that cannot poll stderr for space writes anyway
	holds "$scratch/seccomp" late 271 $error
	# 5, fstat: the handler cannot compare the pipe for signals, and writes to it
	holds "$scratch/seccomp" signals 5 $error
	dies "the kernel refuses futex(2)" "$scratch/seccomp" idle 202 $error
done
