// SPDX-License-Identifier: MIT

// Measures the rows of go_timer.c and go_latency.c: the benchmarks of Go's time package.
package main

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func init() {
	atBoth("AfterFunc1000", afterFunc)
	atBoth("SimultaneousAfterFunc1000", simultaneous)
	atBoth("After", after)
	atBoth("Sleep1000", sleep1000)
	atBoth("Stop/impl=chan", func(r *row) {
		r.amongTimers(func(l *loop) {
			for l.more() {
				time.NewTimer(time.Second).Stop()
			}
		})
	})
	atBoth("Stop/impl=func", func(r *row) {
		r.amongTimers(func(l *loop) {
			for l.more() {
				time.AfterFunc(time.Second, nothing).Stop()
			}
		})
	})
	atBoth("StartStop1000", startStop)
	atBoth("AdjustTimers10000", adjustTimers)
	atBoth("Reset/impl=chan", func(r *row) {
		resetTimer(r, func() *time.Timer { return time.NewTimer(time.Hour) })
	})
	atBoth("Reset/impl=func", func(r *row) {
		resetTimer(r, func() *time.Timer { return time.AfterFunc(time.Hour, nothing) })
	})
	atBoth("Ticker", goTicker)
	atBoth("TickerReset", tickerReset)
	atBoth("TickerResetNaive", tickerResetNaive)
	rows = append(rows, row{"ParallelTimerLatency", 2, 0, 0, timerLatency})
	for _, busy := range []time.Duration{300 * time.Microsecond, 2 * time.Millisecond} {
		for n := 1; n <= int(tickPeriod/busy); n++ {
			name := fmt.Sprintf("StaggeredTickerLatency/work-dur=%s/tickers-per-P=%d",
				strings.Replace(busy.String(), "\u00b5", "u", 1), n)
			rows = append(rows, row{name, 2, n, 0, staggered(busy)})
		}
	}
}

func nothing() {}

// amongTimers calls parallel while each P has 32,768 timers an hour ahead.
func (r *row) amongTimers(body func(l *loop)) {
	var ready sync.WaitGroup
	others := make([][]*time.Timer, r.procs)
	ready.Add(r.procs)
	for p := range others {
		go func() {
			mine := make([]*time.Timer, 1<<15)
			for i := range mine {
				mine[i] = time.AfterFunc(time.Hour, nothing)
			}
			others[p] = mine
			ready.Done()
		}()
	}
	ready.Wait()
	r.parallel(1, body)
	for _, mine := range others {
		for _, t := range mine {
			check(t.Stop(), "it had fired")
		}
	}
}

func afterFunc(r *row) {
	r.amongTimers(func(l *loop) {
		for l.more() {
			n := 1000
			c := make(chan bool)
			var f func()
			f = func() {
				n--
				if n >= 0 {
					time.AfterFunc(0, f)
				} else {
					c <- true
				}
			}
			time.AfterFunc(0, f)
			<-c
		}
	})
}

func simultaneous(r *row) {
	r.amongTimers(func(l *loop) {
		for l.more() {
			var wg sync.WaitGroup
			wg.Add(1000)
			for i := 0; i < 1000; i++ {
				time.AfterFunc(0, wg.Done)
			}
			wg.Wait()
		}
	})
}

func after(r *row) {
	r.amongTimers(func(l *loop) {
		for l.more() {
			<-time.After(1)
		}
	})
}

func sleep1000(r *row) {
	r.amongTimers(func(l *loop) {
		for l.more() {
			var wg sync.WaitGroup
			wg.Add(1000)
			for i := 0; i < 1000; i++ {
				go func() {
					time.Sleep(time.Nanosecond)
					wg.Done()
				}()
			}
			wg.Wait()
		}
	})
}

func startStop(r *row) {
	r.amongTimers(func(l *loop) {
		for l.more() {
			timers := make([]*time.Timer, 1000)
			for i := range timers {
				timers[i] = time.AfterFunc(time.Hour, nothing)
			}
			for _, t := range timers {
				check(t.Stop(), "it had fired")
			}
		}
	})
}

func adjustTimers(r *row) {
	r.amongTimers(func(l *loop) {
		for l.more() {
			timers := make([]*time.Timer, 10000)
			for i := range timers {
				timers[i] = time.AfterFunc(time.Hour, nothing)
			}
			timers[len(timers)-1].Reset(time.Nanosecond)
			time.Sleep(time.Microsecond)
			fired := 0
			for _, t := range timers {
				if !t.Stop() {
					fired++
				}
			}
			check(fired <= 1, "%d fired", fired)
		}
	})
}

func resetTimer(r *row, make func() *time.Timer) {
	r.amongTimers(func(l *loop) {
		t := make()
		for l.more() {
			t.Reset(time.Hour)
		}
		check(t.Stop(), "it had fired")
	})
}

func goTicker(r *row) {
	r.amongTimers(func(l *loop) {
		t := time.NewTicker(time.Nanosecond)
		for l.more() {
			<-t.C
		}
		t.Stop()
	})
}

func tickerReset(r *row) {
	r.amongTimers(func(l *loop) {
		t := time.NewTicker(time.Nanosecond)
		for l.more() {
			t.Reset(2)
		}
		t.Stop()
	})
}

func tickerResetNaive(r *row) {
	r.amongTimers(func(l *loop) {
		t := time.NewTicker(time.Nanosecond)
		for l.more() {
			t.Stop()
			t = time.NewTicker(2)
		}
		t.Stop()
	})
}

type lateness struct {
	sum, most, count int64
	pad              [40]byte
}

func (l *lateness) note(d time.Duration) {
	ns := max(d.Nanoseconds(), 0)
	l.sum += ns
	l.count++
	l.most = max(l.most, ns)
}

func (r *row) lateness(all []lateness, want int) {
	var sum lateness
	for i := range all {
		sum.sum += all[i].sum
		sum.count += all[i].count
		sum.most = max(sum.most, all[i].most)
	}
	check(sum.count == int64(want), "%d times, not %d", sum.count, want)
	r.value("avg", "ns", float64(sum.sum)/float64(sum.count))
	r.value("max", "ns", float64(sum.most))
}

func timerLatency(r *row) {
	timers := r.procs - 1
	late := make([]lateness, timers)
	allPs(r.procs)
	spinFor(30 * time.Millisecond)
	var done sync.WaitGroup
	var fired atomic.Int64
	for i := 0; i < r.count; i++ {
		done.Add(timers)
		fired.Store(0)
		for k := 0; k < timers; k++ {
			expected := time.Now().Add(time.Millisecond)
			time.AfterFunc(time.Millisecond, func() {
				late[k].note(time.Since(expected))
				fired.Add(1)
				for fired.Load() < int64(timers) {
				}
				done.Done()
			})
		}
		for fired.Load() < int64(timers) {
		}
		done.Wait()
		spinFor(time.Millisecond)
	}
	r.lateness(late, timers*r.count)
}

const tickPeriod = 3 * time.Millisecond

func staggered(busy time.Duration) func(r *row) {
	return func(r *row) {
		var done sync.WaitGroup
		n := r.n * r.procs
		late := make([]lateness, n)
		allPs(r.procs)
		done.Add(n)
		for i := 0; i < n; i++ {
			spinFor(tickPeriod / time.Duration(r.procs))
			next := time.Now().Add(tickPeriod)
			t := time.NewTicker(tickPeriod)
			go func() {
				for k := 0; k < r.count; k++ {
					<-t.C
					late[i].note(time.Since(next))
					next = next.Add(tickPeriod)
					spinFor(busy)
				}
				t.Stop()
				done.Done()
			}()
		}
		done.Wait()
		r.lateness(late, n*r.count)
	}
}
