// SPDX-License-Identifier: MIT

// Measures the rows of pool.c that use no pool: a goroutine for each task.
package main

import (
	"sync"
	"sync/atomic"
	"time"
)

func init() {
	rows = append(rows, []row{
		{"pool/green", 1, 50000, 1000000, tasksGreen},
		{"pool/green", 2, 50000, 1000000, tasksGreen},
		{"pool/empty green", 1, 1000, 1000000, emptyGreen},
		{"pool/empty green", 2, 1000, 1000000, emptyGreen},
	}...)
}

var (
	poolWg            sync.WaitGroup
	poolRan, poolMost atomic.Int64
)

func sleepTask() {
	time.Sleep(10 * time.Millisecond)
	poolRan.Add(1)
	poolWg.Done()
}

func countTask() {
	poolRan.Add(1)
	poolWg.Done()
}

func tasks(r *row, submit func()) {
	before := status("VmRSS", "VmPTE")
	poolWg.Add(r.count)
	t0 := time.Now()
	for i := 0; i < r.count; i++ {
		submit()
		if alive := int64(i) + 1 - poolRan.Load(); alive > poolMost.Load() {
			poolMost.Store(alive)
		}
	}
	poolWg.Wait()
	d := time.Since(t0)
	check(poolRan.Load() == int64(r.count), "%d ran", poolRan.Load())
	r.time(d, r.count)
	peak := float64(status("VmHWM", "VmPTE")-before) * 1024
	r.value("peak", "bytes", peak)
	r.value("alive", "bytes", peak/float64(poolMost.Load()))
}

func tasksGreen(r *row) {
	tasks(r, func() { go sleepTask() })
}

func emptyGreen(r *row) {
	var t0 time.Time
	warm := r.count / 8 / r.n
	for i := -warm; i < r.count/r.n; i++ {
		if i == 0 {
			t0 = time.Now()
		}
		poolWg.Add(r.n)
		for k := 0; k < r.n; k++ {
			go countTask()
		}
		poolWg.Wait()
	}
	r.time(time.Since(t0), r.count)
}
