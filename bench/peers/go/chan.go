// SPDX-License-Identifier: MIT

// Measures the rows of chan.c on Go's channels.
package main

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

func pingChan(r *row) {
	var t0 time.Time
	warm := r.count / 8
	ping, pong, done := make(chan int64), make(chan int64), make(chan struct{})
	go func() {
		for v := range ping {
			pong <- v + 1
		}
		close(done)
	}()
	for i := -warm; i < r.count; i++ {
		if i == 0 {
			t0 = time.Now()
		}
		ping <- int64(i)
		if v := <-pong; v != int64(i)+1 {
			check(false, "got %d, not %d", v, i+1)
		}
	}
	d := time.Since(t0)
	close(ping)
	<-done
	r.time(d, r.count)
}

const sides = 8

func passOn128(r *row) { passOn(r, 128) }
func passOn0(r *row)   { passOn(r, 0) }

func passOn(r *row, capacity int) {
	var gate, sent, done sync.WaitGroup
	var received, sum atomic.Uint64
	each, want := uint64(r.count/r.n), uint64(0)
	shared := make(chan uint64, capacity)
	gate.Add(1)
	sent.Add(r.n)
	done.Add(r.n)
	for i := 0; i < r.n; i++ {
		me := uint64(i)
		go func() {
			gate.Wait()
			for i := uint64(0); i < each; i++ {
				shared <- i*sides + me
			}
			sent.Done()
		}()
		go func() {
			var n, s uint64
			var next [sides]uint64
			gate.Wait()
			for v := range shared {
				if v < next[v%sides] {
					check(false, "%d came too late", v/sides)
				}
				next[v%sides] = v + sides
				s += v
				n++
			}
			received.Add(n)
			sum.Add(s)
			done.Done()
		}()
		want += each*me + sides*(each*(each-1)/2)
	}
	time.Sleep(time.Millisecond)
	t0 := time.Now()
	gate.Done()
	sent.Wait()
	close(shared)
	done.Wait()
	d := time.Since(t0)
	check(received.Load() == each*uint64(r.n), "%d received", received.Load())
	check(sum.Load() == want, "their sum is %d", sum.Load())
	r.time(d, r.count)
}

func primes(list []int64) time.Duration {
	var stop atomic.Bool
	var done sync.WaitGroup
	done.Add(len(list) + 1)
	c := make(chan int64)
	t0 := time.Now()
	go func(out chan int64) {
		for i := int64(2); !stop.Load(); i++ {
			out <- i
		}
		close(out)
		done.Done()
	}(c)
	for i := range list {
		prime := <-c
		list[i] = prime
		out := make(chan int64)
		go func(in chan int64) {
			for v := range in {
				if v%prime != 0 {
					out <- v
				}
			}
			close(out)
			done.Done()
		}(c)
		c = out
	}
	d := time.Since(t0)
	stop.Store(true)
	for range c {
	}
	done.Wait()
	return d
}

func sieve(r *row) {
	list := make([]int64, r.n)
	primes(list[:r.n/8])
	d := primes(list)
	at := 0
	for v := int64(2); at < r.n; v++ {
		d := int64(2)
		for d*d <= v && v%d != 0 {
			d++
		}
		if d*d <= v {
			continue
		}
		check(list[at] == v, "prime %d is not %d", at, list[at])
		at++
	}
	r.value("", "ms", float64(d.Nanoseconds())/1e6)
}

func closeOnMany(r *row) {
	var d time.Duration
	for round := -2; round < r.count; round++ {
		var waiting, woken atomic.Int64
		var done sync.WaitGroup
		all := make(chan int64)
		done.Add(r.n)
		for i := 0; i < r.n; i++ {
			go func() {
				waiting.Add(1)
				if v, ok := <-all; v != 0 || ok {
					check(false, "received %d", v)
				}
				woken.Add(1)
				done.Done()
			}()
		}
		for waiting.Load() < int64(r.n) {
			runtime.Gosched()
		}
		time.Sleep(time.Millisecond)
		check(woken.Load() == 0, "some woke too early")
		t0 := time.Now()
		close(all)
		done.Wait()
		if round >= 0 {
			d += time.Since(t0)
		}
		check(woken.Load() == int64(r.n), "%d woke", woken.Load())
	}
	r.time(d, r.count)
}
