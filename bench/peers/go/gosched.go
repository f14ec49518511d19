// SPDX-License-Identifier: MIT

// Measures the rows of go_sched.c, Go's own benchmarks of the scheduler, and those of fib.c.
package main

import (
	"math"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func init() {
	rows = append(rows, row{"PingPongHog", 1, 0, 0, pingPongHog})
	atBoth("CreateGoroutines", func(r *row) { createGoroutines(r, 1) })
	atBoth("CreateGoroutinesParallel", func(r *row) { createGoroutines(r, r.procs) })
	atBoth("CreateGoroutinesCapture", createCapture)
	atBoth("CreateGoroutinesSingle", createSingle)
	atBoth("Matmult", matmult)
	atBoth("fib", forkJoin)
	for name, us := range map[string]int{"0s": 0, "1us": 1, "2us": 2, "5us": 5, "10us": 10,
		"20us": 20, "50us": 50, "100us": 100} {
		d := time.Duration(us) * time.Microsecond
		rows = append(rows,
			row{"WakeupParallelSpinning/" + name, 2, 0, 0, wakeup(spinFor, d)},
			row{"WakeupParallelSyscall/" + name, 2, 0, 0, wakeup(sleepInKernel, d)})
	}
}

func pingPongHog(r *row) {
	ping, pong, over := make(chan bool), make(chan bool), make(chan bool)
	var done sync.WaitGroup
	done.Add(3)
	go func() {
		for {
			select {
			case <-over:
				done.Done()
				return
			default:
			}
		}
	}()
	go func() {
		for i := 0; i < r.count; i++ {
			pong <- <-ping
		}
		close(over)
		done.Done()
	}()
	go func() {
		for i := 0; i < r.count; i++ {
			ping <- <-pong
		}
		done.Done()
	}()
	t0 := time.Now()
	ping <- true
	<-over
	d := time.Since(t0)
	check(<-ping, "got false")
	done.Wait()
	r.time(d, r.count)
}

func createGoroutines(r *row, n int) {
	var started atomic.Int64
	ended := make(chan bool)
	var f func(left int)
	f = func(left int) {
		if left == 0 {
			ended <- true
			return
		}
		started.Add(1)
		go f(left - 1)
	}
	run := func(count int) {
		for i := 0; i < n; i++ {
			go f(count / n)
		}
		for i := 0; i < n; i++ {
			<-ended
		}
	}
	run(r.count / 8)
	warm := started.Load()
	t0 := time.Now()
	run(r.count)
	d := time.Since(t0)
	check(started.Load()-warm == int64(r.count/n*n), "%d ran", started.Load()-warm)
	r.time(d, r.count)
}

func createCapture(r *row) {
	r.twice(func(count int) {
		for i := 0; i < count; i++ {
			var wg sync.WaitGroup
			wg.Add(4)
			for k := 0; k < 4; k++ {
				go func() {
					if k >= 4 {
						sink = count
					}
					wg.Done()
				}()
			}
			wg.Wait()
		}
	})
}

func createSingle(r *row) {
	var wg sync.WaitGroup
	allPs(r.procs)
	t0 := time.Now()
	wg.Add(r.count)
	for i := 0; i < r.count; i++ {
		go func() {
			wg.Done()
		}()
	}
	wg.Wait()
	r.time(time.Since(t0), r.count)
}

func sleepInKernel(d time.Duration) {
	ts := syscall.NsecToTimespec(d.Nanoseconds())
	syscall.Nanosleep(&ts, nil)
}

func wakeup(spend func(d time.Duration), delay time.Duration) func(r *row) {
	const more = 5 * time.Microsecond
	return func(r *row) {
		var done sync.WaitGroup
		ping, pong := make(chan struct{}), make(chan struct{})
		handed := 0
		t0 := time.Now()
		done.Add(2)
		go func() {
			for i := 0; i < r.count; i++ {
				spend(delay + more)
				ping <- struct{}{}
				spend(delay)
				<-pong
			}
			done.Done()
		}()
		go func() {
			for i := 0; i < r.count; i++ {
				spend(delay)
				<-ping
				handed++
				spend(delay + more)
				pong <- struct{}{}
			}
			done.Done()
		}()
		done.Wait()
		d := time.Since(t0)
		check(handed == r.count, "%d handed over", handed)
		r.time(d, r.count)
	}
}

type matrix [][]float64

func newMatrix(n int, fill bool) matrix {
	m := make(matrix, n)
	for i := range m {
		m[i] = make([]float64, n)
		for j := range m[i] {
			if fill {
				m[i][j] = float64(i*n + j)
			}
		}
	}
	return m
}

type product struct {
	a, b, c                matrix
	i0, i1, j0, j1, k0, k1 int
}

func (p product) multiply() {
	di, dj, dk := p.i1-p.i0, p.j1-p.j0, p.k1-p.k0
	lower, upper := p, p
	both := func() {
		done := make(chan struct{}, 1)
		go func() {
			lower.multiply()
			done <- struct{}{}
		}()
		upper.multiply()
		<-done
	}
	switch {
	case di >= dj && di >= dk && di >= 8:
		lower.i1, upper.i0 = p.i0+di/2, p.i0+di/2
		both()
	case dj >= dk && dj >= 8:
		lower.j1, upper.j0 = p.j0+dj/2, p.j0+dj/2
		both()
	case dk >= 8:
		lower.k1, upper.k0 = p.k0+dk/2, p.k0+dk/2
		lower.multiply()
		upper.multiply()
	default:
		for i := p.i0; i < p.i1; i++ {
			for j := p.j0; j < p.j1; j++ {
				for k := p.k0; k < p.k1; k++ {
					p.c[i][j] += p.a[i][k] * p.b[k][j]
				}
			}
		}
	}
}

func matmult(r *row) {
	n := int(math.Cbrt(float64(r.count))) + 1
	p := product{newMatrix(n, true), newMatrix(n, true), newMatrix(n, false), 0, n, 0, n, 0, n}
	t0 := time.Now()
	p.multiply()
	d := time.Since(t0)
	want := 0.0
	for k := 0; k < n; k++ {
		want += p.a[n-1][k] * p.b[k][n-1]
	}
	check(math.Abs(p.c[n-1][n-1]/want-1) < 1e-9, "a wrong product")
	r.time(d, r.count)
}

// Row of fib.c: a goroutine for each left branch.
func goFib(n int) int {
	if n < 2 {
		return n
	}
	c := make(chan int, 1)
	go func() { c <- goFib(n - 1) }()
	b := goFib(n - 2)
	return b + <-c
}

// fibTree returns the largest n whose tree has at most `most` goroutines, its result and their
// number.
func fibTree(most int) (n, result, spawns int) {
	a, b, before := 0, 1, 0
	for n = 1; ; n++ {
		next := 1 + spawns + before
		if next > most {
			return n, b, spawns
		}
		before, spawns = spawns, next
		a, b = b, a+b
	}
}

func forkJoin(r *row) {
	n, want, _ := fibTree(r.count / 8)
	check(goFib(n) == want, "fib(%d) is not %d", n, want)
	n, want, spawns := fibTree(r.count)
	t0 := time.Now()
	result := goFib(n)
	d := time.Since(t0)
	check(result == want, "fib(%d) is not %d", n, want)
	r.time(d, spawns)
}
