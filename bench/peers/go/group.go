// SPDX-License-Identifier: MIT

//go:build !plain

package main

import (
	"time"

	"golang.org/x/sync/errgroup"
)

func init() {
	atBoth("group/1000", group)
}

// group.c.
func groupBatch(n int, shared bool) {
	var g errgroup.Group

	for i := 0; i < n; i++ {
		g.Go(func() error {
			if shared {
				ranShared.Add(1)
			} else {
				ran++
			}
			return nil
		})
	}
	check(g.Wait() == nil, "an error")
}

func group(r *row) {
	rounds := r.count / r.n
	warm := rounds/8 + 1
	for i := 0; i < warm; i++ {
		groupBatch(r.n, r.procs > 1)
	}
	t0 := time.Now()
	for i := 0; i < rounds; i++ {
		groupBatch(r.n, r.procs > 1)
	}
	d := time.Since(t0)
	total := ran + int(ranShared.Load())
	check(total == (warm+rounds)*r.n, "%d ran", total)
	r.time(d, rounds*r.n)
}
