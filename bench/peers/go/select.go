// SPDX-License-Identifier: MIT

// Measures the rows of select.c on Go's select.
package main

import (
	"runtime"
	"sync"
	"time"
)

type xorshift uint64

func (x *xorshift) next() uint64 {
	*x ^= *x << 13
	*x ^= *x >> 7
	*x ^= *x << 17
	return uint64(*x) >> 32
}

const seed = xorshift(88172645463325252)

func four(capacity int) (c [4]chan int64) {
	for i := range c {
		c[i] = make(chan int64, capacity)
	}
	return
}

func selectWakes(r *row) {
	var t0 time.Time
	var done sync.WaitGroup
	warm := r.count / 8
	rounds := int64(r.count + warm)
	c, answers := four(0), make(chan int64)
	c0, c1, c2, c3 := c[0], c[1], c[2], c[3]
	done.Add(1)
	go func() {
		x := seed
		for i := int64(0); i < rounds; i++ {
			to := x.next() % 4
			c[to] <- i*4 + int64(to)
			if v := <-answers; v != i {
				check(false, "answer %d, not %d", v, i)
			}
		}
		done.Done()
	}()
	for i := int64(0); i < rounds; i++ {
		if i == int64(warm) {
			t0 = time.Now()
		}
		var v, k int64
		select {
		case v = <-c0:
			k = 0
		case v = <-c1:
			k = 1
		case v = <-c2:
			k = 2
		case v = <-c3:
			k = 3
		}
		if k != v%4 || v/4 != i {
			check(false, "got %d by case %d", v, k)
		}
		answers <- i
	}
	d := time.Since(t0)
	done.Wait()
	r.time(d, r.count)
}

func selectReady(r *row) {
	var t0 time.Time
	var in, out int64
	warm := r.count / 8
	x := seed
	c := four(4)
	c0, c1, c2, c3 := c[0], c[1], c[2], c[3]
	for i := 0; i < r.count+warm+3; i++ {
		if i == warm+3 {
			t0 = time.Now()
		}
		to := x.next() % 4
		v, k := int64(i)*4+int64(to), int64(0)
		in += v
		c[to] <- v
		if i < 3 {
			continue
		}
		select {
		case v = <-c0:
			k = 0
		case v = <-c1:
			k = 1
		case v = <-c2:
			k = 2
		case v = <-c3:
			k = 3
		}
		if k != v%4 {
			check(false, "got %d by case %d", v, k)
		}
		out += v
	}
	d := time.Since(t0)
	for _, c := range c {
		for len(c) > 0 {
			out += <-c
		}
	}
	check(in == out, "%d came of %d", out, in)
	r.time(d, r.count)
}

func selectTry(r *row) {
	var t0 time.Time
	warm, nothing, v := r.count/8, 0, int64(1)
	c := four(0)
	c0, c1, c2, c3 := c[0], c[1], c[2], c[3]
	for i := -warm; i < r.count; i++ {
		if i == 0 {
			t0 = time.Now()
		}
		select {
		case v = <-c0:
		case v = <-c1:
		case v = <-c2:
		case v = <-c3:
		default:
			nothing++
		}
	}
	d := time.Since(t0)
	check(nothing == r.count+warm && v == 1, "something came")
	r.time(d, r.count)
}

func crowdOf(n, count int) float64 {
	var done sync.WaitGroup
	var t0 time.Time
	own, shared := make([]chan int, n), make(chan struct{})
	warm, entered, last, x := count/8, 0, 0, seed
	done.Add(n)
	for i := range own {
		mine := make(chan int)
		own[i] = mine
		go func() {
			for {
				entered++
				select {
				case <-shared:
					done.Done()
					return
				case v := <-mine:
					last = v
				}
			}
		}()
	}
	for entered < n {
		runtime.Gosched()
	}
	for i := -warm; i < count; i++ {
		if i == 0 {
			t0 = time.Now()
		}
		own[x.next()%uint64(n)] <- i
		for {
			runtime.Gosched()
			if last == i {
				break
			}
		}
	}
	d := time.Since(t0)
	check(entered == n+warm+count, "%d selects", entered)
	close(shared)
	done.Wait()
	return float64(d.Nanoseconds()) / float64(count)
}

func selectCrowd(r *row) {
	few, many := crowdOf(r.n, r.count), crowdOf(10*r.n, r.count)
	r.value("1000", "ns", many)
	r.value("growth", "percent", 100*many/few)
}
