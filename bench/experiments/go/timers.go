// SPDX-License-Identifier: MIT

//go:build go1.23 && !go1.27

//go:debug asynctimerchan=0

package main

// The timers of this Go, not those of the version in go.mod, which are slower.  Go 1.27 has no
// others.
