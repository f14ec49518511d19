# SPDX-License-Identifier: MIT
#
# Which files is the runtime made of?  This is the only list of sources, relative to src/.
# Floor n may use the floors 0..n: the linker checks calls (targets floor_link_n), and
# scripts/check-floors checks includes.  A header belongs to the floor of the .c of the same name;
# those without one are listed in GMP_FLOORn_HEADERS.
#
# GMP_ARCH, GMP_OS and GMP_POLLER choose the machine's files, GMP_URING what calls on files go by,
# GMP_DWARF what finds source positions.

set(GMP_FLOOR0
	base/text_begin.c # first
	base/os_${GMP_OS}.c
	base/os_task_${GMP_OS}.c
	base/os_cgroup.c
	base/lock.c
	base/object.c
	base/options.c
	base/throw.c
	base/trace.c
	base/srcline_${GMP_DWARF}.c
	base/finding.c
	base/symtab.c
	base/tls.c
	base/version.c
)
set(GMP_FLOOR0_HEADERS
	base/atomic.h
	base/base.h
	base/heap4.h
	base/lockrank.def
	base/mem.h
	base/options.def
	base/os.h
	base/os_msg.h
	base/rand.h
	base/san.h
	base/srcline.h
)

set(GMP_FLOOR1
	context_${GMP_ARCH}.S
	machine/unwind.c
	machine/unwind_${GMP_ARCH}.S
	machine/calltarget_${GMP_ARCH}.c
	machine/cxx.c
	stack.c
	netpoll_${GMP_POLLER}.c
)
set(GMP_FLOOR1_HEADERS
	machine/calltarget.h
	context.h
	poller.h
)

set(GMP_FLOOR2
	mode/latency.c
	g.c
	proc.c
	runq.c
	timerheap.c
	netpoll.c
	netpoll/check.c
	netpoll/owner.c
	netpoll/multi.c
	netpoll/fire.c
	mode/chaos.c
)
set(GMP_FLOOR2_HEADERS
	gstatus.def
	netpoll/record.h
	types.h
	waitreason.def
)

set(GMP_FLOOR3
	stall.c
	mode/vtime.c
	ready.c
	source.c
	idle.c
	handoff.c
	pin.c
	mode/thread.c
	mode/chaos_step.c
	sched.c
	park.c
)
set(GMP_FLOOR3_HEADERS)

set(GMP_FLOOR4
	parkinglot.c
	spawn.c
	fls.c
	sleep.c
	chan.c
	select.c
	ticker.c
	sync/mutex.c
	sync/rwmutex.c
	sync/wg.c
	sync/cond.c
	sync/sem.c
	sync/once.c
	sync/barrier.c
	sync/done.c
	blocking.c
	io/fd.c
	io/waitfd.c
	io/poll.c
	io/sendmsg.c
	io/late.c
	io/cleanup.c
	io/uring_${GMP_URING}.c
)
set(GMP_FLOOR4_HEADERS
	io/uring.h
	sync/sync.h
)

set(GMP_FLOOR5
	sysmon.c
	mode/longrun.c
	faultsig.c
)
set(GMP_FLOOR5_HEADERS)

set(GMP_FLOOR6
	run.c
	sys/net.c
	sys/file.c
	sys/resolve.c
	sys/waitpid.c
	sys/process.c
	sys/notify.c
	service/delegate.c
	service/pool.c
	service/pool_delayed.c
	service/pool_lifecycle.c
	service/multipool.c
	service/group.c
	service/singleflight.c
	debug/tlsleak.c
	debug/tlswatch.c
	debug/keywatch.c
	debug/check.c
	debug/view.c
	debug/alike.c
	debug/dump.c
	debug/dump_signal.c
	debug/cycle.c
	debug/report.c
	debug/stats.c
	base/text_end.c # last
)
set(GMP_FLOOR6_HEADERS
	service/service.h
)
