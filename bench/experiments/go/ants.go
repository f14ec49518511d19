// SPDX-License-Identifier: MIT

//go:build ants

// The pool of tasks.c with ants; without the network it is left out.
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
