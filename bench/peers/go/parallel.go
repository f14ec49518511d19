// SPDX-License-Identifier: MIT

// Implements parallel.c in Go: goroutines take iterations from a common store, a handful at a time.
package main

import (
	"sync"
	"sync/atomic"
	"time"
)

type loop struct {
	left          *atomic.Int64
	handful, have int64
	done          int
}

func (l *loop) more() bool {
	if l.have == 0 && !l.refill() {
		return false
	}
	l.have--
	l.done++
	return true
}

func (l *loop) refill() bool {
	before := l.left.Add(-l.handful) + l.handful
	if before <= 0 {
		return false
	}
	l.have = min(before, l.handful)
	return true
}

// share runs count iterations on `each` goroutines for each P.
func (r *row) share(each, count int, body func(l *loop)) time.Duration {
	var left, taken atomic.Int64
	var all sync.WaitGroup
	t0 := time.Now()
	n := each * r.procs
	left.Store(int64(count))
	all.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			l := &loop{left: &left, handful: int64(max(count/n/64, 1))}
			body(l)
			taken.Add(int64(l.done))
			all.Done()
		}()
	}
	all.Wait()
	check(taken.Load() == int64(count), "%d turns, not %d", taken.Load(), count)
	return time.Since(t0)
}

// twice runs once to warm up, and reports the time of the second run.
func (r *row) twice(run func(count int)) {
	run(r.count/8 + 1)
	t0 := time.Now()
	run(r.count)
	r.time(time.Since(t0), r.count)
}

func (r *row) parallel(each int, body func(l *loop)) {
	r.twice(func(count int) { r.share(each, count, body) })
}

var sink int

//go:noinline
func busyWork(n int) {
	for i := 0; i < n; i++ {
	}
}

//go:noinline
func halves(x, n int) int {
	for i := 0; i != n; i++ {
		x *= 2
		x /= 2
	}
	return x
}

func spinFor(d time.Duration) {
	end := time.Now().Add(d)
	for time.Now().Before(end) {
	}
}

// allPs returns after every P has run a goroutine at the same time.
func allPs(procs int) {
	var here atomic.Int64
	var all sync.WaitGroup
	all.Add(procs)
	for i := 0; i < procs; i++ {
		go func() {
			here.Add(1)
			for here.Load() < int64(procs) {
			}
			spinFor(time.Millisecond)
			all.Done()
		}()
	}
	all.Wait()
}

// atBoth adds a row with one P and a row with two.
func atBoth(name string, fn func(r *row)) {
	rows = append(rows, row{name, 1, 0, 0, fn}, row{name, 2, 0, 0, fn})
}
