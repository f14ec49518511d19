// SPDX-License-Identifier: MIT

//go:build ants

// Measures the rows of pool.c on a pool of ants; not built without the network.
package main

import (
	"sync"
	"time"

	"github.com/panjf2000/ants/v2"
)

func init() {
	rows = append(rows, []row{
		{"pool/sleep", 1, 50000, 1000000, antsSleep},
		{"pool/sleep", 2, 50000, 1000000, antsSleep},
		{"pool/timers", 1, 50000, 1000000, antsSleep},
		{"pool/timers", 2, 50000, 1000000, antsSleep},
		{"pool/submit/1", 1, 1, 4000000, antsSubmit},
		{"pool/submit/1", 2, 1, 4000000, antsSubmit},
		{"pool/submit/8", 1, 8, 4000000, antsSubmit},
		{"pool/submit/8", 2, 8, 4000000, antsSubmit},
	}...)
}

func newAnts(n int) *ants.Pool {
	p, err := ants.NewPool(n, ants.WithExpiryDuration(10*time.Second))
	check(err == nil, "%v", err)
	return p
}

func antsSleep(r *row) {
	p := newAnts(r.n)
	tasks(r, func() {
		check(p.Submit(sleepTask) == nil, "Submit")
	})
}

func antsSubmit(r *row) {
	p := newAnts(1000)
	all := func(n int) {
		var submitters sync.WaitGroup
		poolWg.Add(n)
		submitters.Add(r.n)
		for i := 0; i < r.n; i++ {
			go func() {
				for k := 0; k < n/r.n; k++ {
					check(p.Submit(countTask) == nil, "Submit")
				}
				submitters.Done()
			}()
		}
		submitters.Wait()
		poolWg.Wait()
	}
	all(r.count / 8)
	t0 := time.Now()
	all(r.count)
	d := time.Since(t0)
	check(poolRan.Load() == int64(r.count/8+r.count), "%d ran", poolRan.Load())
	r.time(d, r.count)
}
