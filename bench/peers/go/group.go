// SPDX-License-Identifier: MIT

//go:build !plain

// Measures the rows of group.c with errgroup.
package main

import "golang.org/x/sync/errgroup"

func init() {
	atBoth("group/1000", group)
}

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
	batches(r, groupBatch)
}
