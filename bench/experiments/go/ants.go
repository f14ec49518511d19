// SPDX-License-Identifier: MIT

//go:build ants

// Runs the tasks of tasks.c on a pool of ants; not built without the network.
package main

import (
	"time"

	"github.com/panjf2000/ants/v2"
)

func init() {
	submitTo = func(capacity int) func(func()) {
		p, err := ants.NewPool(capacity, ants.WithExpiryDuration(10*time.Second))
		check(err == nil, "%v", err)
		return func(task func()) {
			check(p.Submit(task) == nil, "Submit")
		}
	}
}
