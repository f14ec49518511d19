// SPDX-License-Identifier: MIT

// Measures the rows of go_chan.c: Go's own benchmarks of channels.
package main

import (
	"sync"
	"sync/atomic"
	"time"
)

func init() {
	rows = append(rows, []row{
		{"MakeChan/Byte", 1, 0, 0, makeChan[byte]},
		{"MakeChan/Int", 1, 0, 0, makeChan[int]},
		{"MakeChan/Ptr", 1, 0, 0, makeChan[*byte]},
		{"MakeChan/Struct/0", 1, 0, 0, makeChan[struct{}]},
		{"MakeChan/Struct/32", 1, 0, 0, makeChan[[32]byte]},
		{"MakeChan/Struct/40", 1, 0, 0, makeChan[[40]byte]},
		{"ReceiveDataFromClosedChan", 1, 0, 0, drain},
	}...)
	atBoth("ChanCreation", chanCreation)
	atBoth("ChanNonblocking", chanNonblocking)
	atBoth("ChanClosed", chanClosed)
	atBoth("ChanSem", chanSem)
	atBoth("ChanContended", chanContended)
	atBoth("ChanUncontended", chanUncontended)
	atBoth("ChanSync", chanSync(0))
	atBoth("ChanSyncWork", chanSync(1000))
	atBoth("ChanProdCons0", prodCons(0, 0))
	atBoth("ChanProdCons10", prodCons(10, 0))
	atBoth("ChanProdCons100", prodCons(100, 0))
	atBoth("ChanProdConsWork0", prodCons(0, 100))
	atBoth("ChanProdConsWork10", prodCons(10, 100))
	atBoth("ChanProdConsWork100", prodCons(100, 100))
	atBoth("ChanPopular", chanPopular)
}

func makeChan[T any](r *row) {
	var c chan T
	var t0 time.Time
	for i := -r.count / 8; i < r.count; i++ {
		if i == 0 {
			t0 = time.Now()
		}
		c = make(chan T, 8)
	}
	d := time.Since(t0)
	close(c)
	r.time(d, r.count)
}

func drain(r *row) {
	c := make(chan struct{}, r.count)
	for i := 0; i < r.count; i++ {
		c <- struct{}{}
	}
	close(c)
	n := 0
	t0 := time.Now()
	for range c {
		n++
	}
	d := time.Since(t0)
	check(n == r.count, "%d received", n)
	r.time(d, r.count)
}

func chanCreation(r *row) {
	r.parallel(1, func(l *loop) {
		for l.more() {
			c := make(chan int, 1)
			c <- l.done
			if v := <-c; v != l.done {
				check(false, "got %d", v)
			}
		}
	})
}

func chanNonblocking(r *row) {
	c := make(chan int)
	r.parallel(1, func(l *loop) {
		for l.more() {
			select {
			case <-c:
				check(false, "something came")
			default:
			}
		}
	})
}

func chanClosed(r *row) {
	c := make(chan struct{})
	close(c)
	r.parallel(1, func(l *loop) {
		for l.more() {
			select {
			case <-c:
			default:
				check(false, "it is not closed")
			}
		}
	})
}

func chanSem(r *row) {
	c := make(chan struct{}, r.procs)
	r.parallel(1, func(l *loop) {
		for l.more() {
			c <- struct{}{}
			<-c
		}
	})
	check(len(c) == 0, "%d are left", len(c))
}

const room = 100

func hundred(c chan int) {
	sum := 0
	for i := 0; i < room; i++ {
		c <- 0
	}
	for i := 0; i < room; i++ {
		sum += <-c
	}
	check(sum == 0, "the sum is %d", sum)
}

func chanContended(r *row) {
	c := make(chan int, room*r.procs)
	r.parallel(1, func(l *loop) {
		for l.more() {
			hundred(c)
		}
	})
	check(len(c) == 0, "%d are left", len(c))
}

func chanUncontended(r *row) {
	r.parallel(1, func(l *loop) {
		c := make(chan int, room)
		for l.more() {
			hundred(c)
		}
	})
}

const calls = 1000

func chanSync(work int) func(r *row) {
	return func(r *row) {
		c := make(chan int)
		run := func(count int) {
			var left, got atomic.Int64
			var done sync.WaitGroup
			rounds := count / calls / 2 * 2
			left.Store(int64(rounds))
			done.Add(2)
			for p := 0; p < 2; p++ {
				go func() {
					n := 0
					for {
						i := left.Add(-1)
						if i < 0 {
							break
						}
						for g := 0; g < calls; g++ {
							if i%2 == 0 {
								n += <-c
								busyWork(work)
								c <- 1
							} else {
								c <- 1
								busyWork(work)
								n += <-c
							}
							busyWork(work)
						}
					}
					got.Add(int64(n))
					done.Done()
				}()
			}
			done.Wait()
			check(got.Load() == int64(rounds*calls), "%d received", got.Load())
		}
		run(r.count / 8)
		t0 := time.Now()
		run(r.count)
		r.time(time.Since(t0), r.count/calls/2*2*calls)
	}
}

func prodCons(size, work int) func(r *row) {
	return func(r *row) {
		c := make(chan int, size)
		run := func(count int) {
			var left, got atomic.Int64
			var done sync.WaitGroup
			left.Store(int64(count / calls))
			done.Add(2 * r.procs)
			for p := 0; p < r.procs; p++ {
				go func() {
					for left.Add(-1) >= 0 {
						for g := 0; g < calls; g++ {
							busyWork(work)
							c <- 1
						}
					}
					c <- 0
					done.Done()
				}()
				go func() {
					n := 0
					for <-c != 0 {
						busyWork(work)
						n++
					}
					got.Add(int64(n))
					done.Done()
				}()
			}
			done.Wait()
			check(got.Load() == int64(count/calls*calls), "%d received", got.Load())
		}
		run(r.count / 8)
		t0 := time.Now()
		run(r.count)
		r.time(time.Since(t0), r.count/calls*calls)
	}
}

func chanPopular(r *row) {
	var done sync.WaitGroup
	shared := make(chan bool)
	own := make([]chan bool, r.n)
	t0 := time.Now()
	done.Add(r.n)
	for i := range own {
		c := make(chan bool)
		own[i] = c
		go func() {
			for k := 0; k < r.count; k++ {
				select {
				case <-shared:
					check(false, "the popular one was ready")
				case <-c:
				}
			}
			done.Done()
		}()
	}
	for k := 0; k < r.count; k++ {
		for _, c := range own {
			c <- true
		}
	}
	done.Wait()
	r.time(time.Since(t0), r.count)
}
