// SPDX-License-Identifier: MIT

// Measures the rows of go_select.c: Go's own benchmarks of select.
package main

import (
	"sync"
	"sync/atomic"
	"time"
)

func init() {
	atBoth("SelectUncontended", selectUncontended)
	atBoth("SelectAsyncContended", selectAsyncContended)
	atBoth("SelectSyncContended", selectSyncContended)
	atBoth("SelectNonblock", selectNonblock)
	atBoth("SelectProdCons", selectProdCons)
}

func toAndFro(l *loop, a, b chan int) {
	a <- 1
	for l.more() {
		select {
		case <-a:
			b <- 1
		case <-b:
			a <- 1
		}
	}
}

func selectUncontended(r *row) {
	r.parallel(1, func(l *loop) {
		a, b := make(chan int, 1), make(chan int, 1)
		toAndFro(l, a, b)
		check(len(a)+len(b) == 1, "not one element")
	})
}

func selectAsyncContended(r *row) {
	r.twice(func(count int) {
		a, b := make(chan int, r.procs), make(chan int, r.procs)
		r.share(1, count, func(l *loop) { toAndFro(l, a, b) })
		check(len(a)+len(b) == r.procs, "an element is lost")
	})
}

func selectSyncContended(r *row) {
	r.twice(func(count int) {
		var senders sync.WaitGroup
		a, b, c, over := make(chan int), make(chan int), make(chan int), make(chan int)
		r.share(1, count, func(l *loop) {
			senders.Add(1)
			go func() {
				defer senders.Done()
				for {
					select {
					case a <- 1:
					case b <- 1:
					case c <- 1:
					case <-over:
						return
					}
				}
			}()
			for l.more() {
				v := 0
				select {
				case v = <-a:
				case v = <-b:
				case v = <-c:
				}
				if v != 1 {
					check(false, "got %d", v)
				}
			}
		})
		close(over)
		senders.Wait()
	})
}

func selectNonblock(r *row) {
	a, b, c, d := make(chan int), make(chan int), make(chan int, 1), make(chan int, 1)
	r.parallel(1, func(l *loop) {
		for l.more() {
			select {
			case <-a:
				check(false, "something came")
			default:
			}
			select {
			case b <- 1:
				check(false, "an element was sent")
			default:
			}
			select {
			case <-c:
			default:
			}
			select {
			case d <- 1:
			default:
			}
		}
	})
	check(len(d) == 1, "nothing was sent")
}

func selectProdCons(r *row) {
	run := func(count int) {
		var left, got atomic.Int64
		var done sync.WaitGroup
		elements, stop := make(chan int, 128), make(chan bool)
		left.Store(int64(count / calls))
		done.Add(2 * r.procs)
		for p := 0; p < r.procs; p++ {
			go func() {
				hour := time.After(time.Hour)
				for left.Add(-1) >= 0 {
					for g := 0; g < calls; g++ {
						busyWork(100)
						select {
						case elements <- 1:
						case <-hour:
						case <-stop:
						}
					}
				}
				elements <- 0
				done.Done()
			}()
			go func() {
				hour := time.After(time.Hour)
				for n := 0; ; n++ {
					v := 0
					select {
					case v = <-elements:
					case <-hour:
					case <-stop:
					}
					if v == 0 {
						got.Add(int64(n))
						break
					}
					busyWork(100)
				}
				done.Done()
			}()
		}
		done.Wait()
		check(got.Load() == int64(count/calls*calls), "%d received", got.Load())
	}
	r.twice(run)
}
