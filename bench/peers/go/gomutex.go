// SPDX-License-Identifier: MIT

// Measures the rows of go_mutex.c: Go's own benchmarks of its runtime lock, on sync.Mutex.
package main

import (
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

func init() {
	atBoth("MutexContention", func(r *row) {
		together(r, r.count/8+1, countUp)
		r.time(together(r, r.count, countUp), r.count)
	})
	rows = append(rows, row{"MutexCapture", 2, 0, 0, mutexCapture},
		row{"MutexHandoff/Solo", 1, 0, 0, handoffSolo},
		row{"MutexHandoff/FastPingPong", 2, 0, 0, handoff},
		row{"MutexHandoff/SlowPingPong", 2, 0, 0, handoff})
}

var contended struct {
	_    [128]byte
	lock sync.Mutex
	_    [128]byte
	n    atomic.Int64
	_    [128]byte
	turn atomic.Int64
	_    [128]byte
}

func countOn() int64 {
	contended.lock.Lock()
	ours := contended.n.Add(1)
	contended.lock.Unlock()
	return ours
}

func together(r *row, turns int, body func(last int64)) time.Duration {
	var done sync.WaitGroup
	t0 := time.Now()
	contended.n.Store(0)
	done.Add(r.procs)
	for p := 0; p < r.procs; p++ {
		go func() {
			body(int64(turns))
			done.Done()
		}()
	}
	done.Wait()
	n := contended.n.Load()
	check(n == int64(turns+r.procs-1), "counted %d", n)
	return time.Since(t0)
}

func countUp(last int64) {
	for countOn() < last {
	}
}

type histogram [64]atomic.Int64

func (h *histogram) note(v int64) {
	if v > 0 {
		h[bits.Len64(uint64(v))-1].Add(1)
	}
}

func (h *histogram) part(share float64) float64 {
	sum, seen := 0.0, 0.0
	for i := range h {
		sum += float64(h[i].Load()) * float64(uint64(1)<<i)
	}
	for i := 63; i >= 0; i-- {
		seen += float64(h[i].Load()) * float64(uint64(1)<<i)
		if sum-seen < sum*share {
			return float64(uint64(1) << i)
		}
	}
	return 0
}

func mutexCapture(r *row) {
	var streaks, starved histogram
	together(r, r.count, func(last int64) {
		before, streak, ours, others := int64(0), int64(0), int64(0), int64(0)
		for ours < last {
			ours = countOn()
			others = ours - before - 1
			before = ours
			if others == 0 {
				streak++
				continue
			}
			streaks.note(streak)
			starved.note(others)
			streak = 1
		}
		if others == 0 {
			streaks.note(streak)
		}
	})
	r.value("streak-p100", "turns", streaks.part(1))
	r.value("streak-p90", "turns", streaks.part(0.9))
	r.value("starve-p100", "turns", starved.part(1))
	r.value("starve-p90", "turns", starved.part(0.9))
}

func handoffSolo(r *row) {
	var m sync.Mutex
	var t0 time.Time
	for i := -r.count / 8; i < r.count; i++ {
		if i == 0 {
			t0 = time.Now()
		}
		m.Lock()
		m.Unlock()
	}
	d := time.Since(t0)
	check(m.TryLock(), "still locked")
	r.time(d, r.count)
}

func handoff(r *row) {
	var taken atomic.Int64
	var done sync.WaitGroup
	start := time.Now()
	handed := 0
	allPs(r.procs)
	done.Add(2)
	go func() {
		t := time.Duration(0)
		for i := 0; i < r.count; i++ {
			contended.lock.Lock()
			contended.turn.Add(2)
			if r.n > 0 {
				spinFor(time.Duration(r.n))
			}
			t -= time.Since(start)
			contended.lock.Unlock()
			for contended.turn.Load()&2 != 0 {
			}
		}
		contended.turn.Add(1)
		taken.Add(int64(t))
		done.Done()
	}()
	go func() {
		t := time.Duration(0)
		for {
			turn := contended.turn.Load() & 3
			if turn&1 != 0 {
				break
			}
			if turn == 0 {
				continue
			}
			contended.lock.Lock()
			t += time.Since(start)
			contended.lock.Unlock()
			handed++
			contended.turn.Add(2)
		}
		taken.Add(int64(t))
		done.Done()
	}()
	done.Wait()
	check(handed == r.count, "handed over %d times", handed)
	r.time(time.Duration(taken.Load()), r.count)
}
