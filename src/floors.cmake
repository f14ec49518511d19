# SPDX-License-Identifier: MIT
#
# Sources of the runtime by floor, relative to src/: the only list of them.
#
# Floor n may use the floors 0..n: the linker checks calls (targets floor_link_n), and
# scripts/check-floors checks includes.  A header belongs to the floor of the .c of the same name;
# a header without such a .c is listed in GMP_FLOORn_HEADERS.
#
# GMP_ARCH, GMP_OS, GMP_LIBC and GMP_POLLER choose the files of the platform, GMP_URING the
# implementation of file operations, GMP_DWARF that of source positions, GMP_PPROF that of encoded
# profiles, GMP_TLSBLOCK that of thread-local blocks.

set(GMP_FLOOR0
	base/text_begin.c # first
	base/os_${GMP_OS}.c
	base/os_posix.c
	base/os_fd.c
	base/os_fd_${GMP_OS}.c
	base/os_sink.c
	base/os_thread.c
	base/os_task_${GMP_OS}.c
	base/os_cgroup.c
	base/errtext.c
	base/lock.c
	base/object.c
	base/options.c
	base/throw.c
	base/trace.c
	base/emit.c
	base/srcline_${GMP_DWARF}.c
	base/finding.c
	base/symtab.c
	base/tls.c
	base/version.c
)
if(GMP_OS STREQUAL linux)
	list(APPEND GMP_FLOOR0 base/os_clock_linux.c)
endif()
if(GMP_ARCH STREQUAL riscv64)
	list(APPEND GMP_FLOOR0 base/bytecas_riscv64.c base/ticks_riscv64.c)
endif()
if(GMP_LIBC STREQUAL musl)
	list(APPEND GMP_FLOOR0
		base/libc_musl.c)
endif()
set(GMP_FLOOR0_HEADERS
	base/arch.h
	base/arch_${GMP_ARCH}.h
	base/atomic.h
	base/base.h
	base/dl.h
	base/dlist.h
	base/event.def
	base/glibc_floor.h
	base/heap4.h
	base/libc.h
	base/lockrank.def
	base/mem.h
	base/options.def
	base/policy.h
	base/policy.def
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
	machine/asleep.c
	machine/cxx.c
	machine/tlsblock_${GMP_TLSBLOCK}.c
	machine/slab.c
	stack.c
	netpoll_${GMP_POLLER}.c
)
if(GMP_TLSBLOCK STREQUAL glibc)
	list(APPEND GMP_FLOOR1
		machine/tlslayout_glibc.c)
endif()
set(GMP_FLOOR1_HEADERS
	machine/asm_aarch64.h
	machine/asm_riscv64.h
	machine/calltarget.h
	machine/frame.h
	machine/frame_${GMP_ARCH}.h
	machine/ibt_x86_64.h
	machine/tlsblock.h
	machine/tlslayout.h
	context.h
	poller.h
)

set(GMP_FLOOR2
	observe/latency.c
	observe/tracing.c
	variant/generation.c
	variant/outside.c
	variant/owntls.c
	g.c
	m.c
	proc.c
	runq.c
	timer/timerheap.c
	netpoll/netpoll.c
	netpoll/check.c
	netpoll/register.c
	netpoll/deadline.c
	netpoll/owner.c
	netpoll/multi.c
	variant/chaos.c
)
set(GMP_FLOOR2_HEADERS
	observe/pause.h
	enter.h
	g_state.h
	gstatus.def
	handoff_state.h
	variant/variant.h
	variant/variant_state.h
	netpoll/record.h
	pick_state.h
	observe/probe.h
	observe/probe_state.h
	proc_state.h
	runq_state.h
	timer/timerheap_state.h
	types.h
	upcalls.h
	waiter.h
	waiter_state.h
	waitreason.def
	waitreason.h
)

set(GMP_FLOOR3
	policy/stall.c
	variant/vtime.c
	ready.c
	source.c
	idle.c
	handoff.c
	policy/pin.c
	policy/spare.c
	policy/take.c
	pick.c
	variant/thread.c
	variant/chaos_step.c
	sched.c
	park.c
	variant/leave.c
	variant/owntls_spawn.c
)
set(GMP_FLOOR3_HEADERS)

set(GMP_FLOOR4
	wait/parkinglot.c
	spawn.c
	wait/join.c
	wait/fls.c
	wait/sleep.c
	chan.c
	select.c
	wait/ticker.c
	wait/mutex.c
	wait/mutex_unlock.c
	wait/rwmutex.c
	wait/wg.c
	wait/cond.c
	wait/sem.c
	wait/once.c
	wait/barrier.c
	wait/done.c
	wait/blocking.c
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
	wait/sync.h
)

set(GMP_FLOOR5
	monitor/sysmon.c
	monitor/retake.c
	monitor/progress.c
	monitor/preempt.c
	monitor/fdwait.c
	monitor/memory.c
	monitor/chaos.c
	observe/longrun.c
	observe/cpusample.c
	variant/abandon.c
	variant/abandon_${GMP_ARCH}.S
	monitor/faultsig.c
)
set(GMP_FLOOR5_HEADERS
	monitor/monitor.h
)

set(GMP_FLOOR6
	run/run.c
	sys/address.c
	sys/net.c
	sys/file.c
	sys/resolve.c
	sys/waitpid.c
	sys/process.c
	sys/notify.c
	run/fork.c
	run/shutdown.c
	service/delegate.c
	service/pool.c
	service/pool_delayed.c
	service/pool_lifecycle.c
	service/multipool.c
	service/group.c
	service/singleflight.c
	observe/check/tlsleak.c
	observe/check/tlswatch.c
	observe/check/keywatch.c
	observe/check/check.c
	observe/dump/snapshot.c
	observe/dump/dump_group.c
	observe/dump/running.c
	observe/dump/dump.c
	observe/dump/dump_signal.c
	observe/trace/tracefile.c
	observe/trace/tracing.c
	observe/serve/page_trace.c
	observe/profile/trace_counts.c
	observe/profile/pc_map.c
	observe/profile/pprof_${GMP_PPROF}.c
	observe/profile/profile.c
	observe/profile/profile_wait.c
	observe/dump/cycle.c
	observe/dump/deadlock_report.c
	observe/trace/schedtrace.c
	observe/stats.c
	observe/serve/http.c
	observe/serve/response.c
	observe/serve/routes.c
	observe/serve/metrics.c
	observe/serve/vars.c
	observe/serve/server.c
	base/text_end.c # last
)
if(GMP_TLSBLOCK STREQUAL glibc) # libgmprt_posix
	list(INSERT GMP_FLOOR6 1 run/door.c)
endif()
set(GMP_FLOOR6_HEADERS
	observe/stat.def
	service/service.h
	observe/profile/pprof.h
)
