// SPDX-License-Identifier: MIT

// Measures the rows of loaded.c: the lateness of wakeups on busy Ps, and fairness.
package main

import (
	"os"
	"runtime"
	"slices"
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
	atBoth("loaded/thread", loaded(waitForThread))
	atBoth("loaded/mutex", loaded(waitForMutex))
	atBoth("loaded/fair", fair)
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

const (
	runnable = 200
	compute  = 500 * time.Microsecond
)

// load is the goroutines that compute.
type load struct {
	runs [runnable]atomic.Int64
	stop atomic.Bool
	ends sync.WaitGroup
}

// startLoad returns after each of the goroutines has run twice.
func startLoad(procs int) *load {
	var l load
	var warm sync.WaitGroup
	allPs(procs)
	l.ends.Add(runnable)
	warm.Add(runnable)
	for i := range l.runs {
		mine := &l.runs[i]
		go func() {
			for !l.stop.Load() {
				spinFor(compute)
				if mine.Add(1) == 2 {
					warm.Done()
				}
				runtime.Gosched()
			}
			l.ends.Done()
		}()
	}
	warm.Wait()
	return &l
}

func (l *load) end() {
	l.stop.Store(true)
	l.ends.Wait()
}

func loaded(wait func(s *samples)) func(r *row) {
	return func(r *row) {
		var waiters sync.WaitGroup
		s := &samples{late: make([]int64, r.count)}
		l := startLoad(r.procs)
		waiters.Add(r.n)
		for i := 0; i < r.n; i++ {
			go func() {
				wait(s)
				waiters.Done()
			}()
		}
		waiters.Wait()
		l.end()
		reportLateness(r, s.late)
	}
}

func clock() int64 {
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

type timerfd struct {
	fd uintptr
	f  *os.File
}

func newTimerfd() timerfd {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, 1,
		syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	check(errno == 0, "timerfd_create: %v", errno)
	return timerfd{fd, os.NewFile(fd, "timerfd")}
}

// read lets the timerfd expire 1 ms ahead, reads it, and returns the lateness.
func (t timerfd) read() time.Duration {
	times := make([]byte, 8)
	due := clock() + int64(time.Millisecond)
	at := [2]syscall.Timespec{{}, syscall.NsecToTimespec(due)}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, t.fd, 1,
		uintptr(unsafe.Pointer(&at)), 0, 0, 0)
	check(errno == 0, "timerfd_settime: %v", errno)
	n, err := t.f.Read(times)
	check(n == 8 && err == nil, "read %d bytes, %v", n, err)
	return time.Duration(clock() - due)
}

func waitForFd(s *samples) {
	t := newTimerfd()
	for s.more() {
		s.note(t.read())
	}
	t.f.Close()
}

// waitForThread receives from a goroutine with an OS thread of its own.  Without cgo that is as
// near as Go comes to an external thread: it needs a P before it can send.
func waitForThread(s *samples) {
	c := make(chan time.Time, 1)
	over := make(chan bool)
	var ends sync.WaitGroup
	ends.Add(1)
	go func() {
		runtime.LockOSThread()
		defer ends.Done()
		for {
			ms := syscall.Timespec{Nsec: int64(time.Millisecond)}
			syscall.Syscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ms)), 0, 0)
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
	ends.Wait()
}

func waitForMutex(s *samples) {
	var m sync.Mutex
	var unlocked time.Time
	locked, again := make(chan bool, 1), make(chan bool, 1)
	go func() {
		for ok := true; ok; _, ok = <-again {
			m.Lock()
			locked <- true
			time.Sleep(time.Millisecond)
			unlocked = time.Now()
			m.Unlock()
		}
	}()
	for {
		<-locked
		from := time.Now()
		m.Lock()
		if from.Before(unlocked) { // otherwise it has not waited
			s.note(time.Since(unlocked))
		}
		m.Unlock()
		if !s.more() {
			break
		}
		again <- true
	}
	close(again)
}

func fair(r *row) {
	var before, ran [runnable]int64
	l := startLoad(r.procs)
	lasted := make(chan time.Duration)
	go func() {
		began := time.Now()
		t := newTimerfd()
		for i := range before {
			before[i] = l.runs[i].Load()
		}
		for {
			check(t.read() >= 0, "it woke too early")
			d := time.Since(began)
			for i := range ran {
				ran[i] = l.runs[i].Load() - before[i]
			}
			if slices.Min(ran[:]) >= int64(r.count) || d >= 5*time.Second {
				t.f.Close()
				lasted <- d
				return
			}
		}
	}()
	d := <-lasted
	l.end()
	sum := int64(0)
	for _, n := range ran {
		sum += n
	}
	least, largest := slices.Min(ran[:]), slices.Max(ran[:])
	check(least > 0, "a goroutine did not run")
	all := float64(int64(d) * int64(r.procs))
	r.value("lost", "percent", 100-100*float64(sum*int64(compute))/all)
	r.value("spread", "percent", 100*runnable*float64(largest-least)/float64(sum))
}
