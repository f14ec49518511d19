// SPDX-License-Identifier: MIT

// Measures the rows of loaded.c: the lateness of wakeups on busy Ps.
package main

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

func init() {
	atBoth("loaded/sleep", loaded(func(s *samples) {
		for s.more() {
			due := time.Now().Add(time.Millisecond)
			time.Sleep(time.Until(due))
			s.note(time.Since(due))
		}
	}))
	atBoth("loaded/sleep 10", rowOf("loaded/sleep"))
	atBoth("loaded/ticker", loaded(func(s *samples) {
		t := time.NewTicker(time.Millisecond)
		for s.more() {
			due := <-t.C
			s.note(time.Since(due))
		}
		t.Stop()
	}))
	atBoth("loaded/ticker 100", rowOf("loaded/ticker"))
	atBoth("loaded/timer", loaded(func(s *samples) {
		var due time.Time
		var t *time.Timer
		over := make(chan bool)
		t = time.AfterFunc(time.Hour, func() {
			s.note(time.Since(due))
			if !s.more() {
				close(over)
				return
			}
			due = time.Now().Add(time.Millisecond)
			t.Reset(time.Until(due))
		})
		due = time.Now().Add(time.Millisecond)
		t.Reset(time.Until(due))
		<-over
	}))
	atBoth("loaded/deadline", loaded(func(s *samples) {
		c := make(chan bool)
		t := time.NewTimer(time.Hour)
		for s.more() {
			due := time.Now().Add(time.Millisecond)
			t.Reset(time.Until(due))
			select {
			case <-c:
				check(false, "received")
			case <-t.C:
			}
			s.note(time.Since(due))
		}
	}))
	atBoth("loaded/fd", loaded(waitForFd))
	atBoth("loaded/chan", loaded(func(s *samples) {
		c := make(chan time.Time)
		over := make(chan bool)
		go func() {
			for {
				time.Sleep(time.Millisecond)
				select {
				case c <- time.Now():
				case <-over:
					return
				}
			}
		}()
		for s.more() {
			sent := <-c
			s.note(time.Since(sent))
		}
		close(over)
	}))
}

func rowOf(name string) func(r *row) {
	for _, r := range rows {
		if r.name == name {
			return r.fn
		}
	}
	panic(name)
}

type samples struct {
	late  []int64
	taken atomic.Int64
}

func (s *samples) more() bool {
	return s.taken.Load() < int64(len(s.late))
}

func (s *samples) note(d time.Duration) {
	if i := s.taken.Add(1) - 1; i < int64(len(s.late)) {
		s.late[i] = int64(d)
	}
}

func loaded(wait func(s *samples)) func(r *row) {
	return func(r *row) {
		var stop atomic.Bool
		var runnable, waiters sync.WaitGroup
		s := &samples{late: make([]int64, r.count)}
		allPs(r.procs)
		runnable.Add(200)
		for i := 0; i < 200; i++ {
			go func() {
				for !stop.Load() {
					spinFor(500 * time.Microsecond)
					runtime.Gosched()
				}
				runnable.Done()
			}()
		}
		waiters.Add(r.n)
		for i := 0; i < r.n; i++ {
			go func() {
				wait(s)
				waiters.Done()
			}()
		}
		waiters.Wait()
		stop.Store(true)
		runnable.Wait()
		reportLateness(r, s.late)
	}
}

func clock() int64 {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

func waitForFd(s *samples) {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, 1,
		syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	check(errno == 0, "timerfd_create: %v", errno)
	f := os.NewFile(fd, "timerfd")
	times := make([]byte, 8)
	for s.more() {
		due := clock() + int64(time.Millisecond)
		at := [2]syscall.Timespec{{}, syscall.NsecToTimespec(due)}
		_, _, errno = syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, fd, 1,
			uintptr(unsafe.Pointer(&at)), 0, 0, 0)
		check(errno == 0, "timerfd_settime: %v", errno)
		n, err := f.Read(times)
		check(n == 8 && err == nil, "read %d bytes, %v", n, err)
		s.note(time.Duration(clock() - due))
	}
	f.Close()
}
