// SPDX-License-Identifier: MIT

// Measures the rows of go_sync.c: the benchmarks of Go's sync package.
package main

import (
	"fmt"
	"sync"
	"sync/atomic"
)

func init() {
	atBoth("MutexUncontended", func(r *row) {
		r.parallel(1, func(l *loop) {
			var p struct {
				sync.Mutex
				pad [128]byte
			}
			for l.more() {
				p.Lock()
				p.Unlock()
			}
		})
	})
	atBoth("Mutex", goMutex(1, 0))
	atBoth("MutexSlack", goMutex(10, 0))
	atBoth("MutexWork", goMutex(1, 100))
	atBoth("MutexWorkSlack", goMutex(10, 100))
	atBoth("MutexNoSpin", mutexNoSpin)
	atBoth("MutexSpin", mutexSpin)
	atBoth("RWMutexUncontended", rwUncontended)
	atBoth("RWMutexWrite100", rwShared(100, 0))
	atBoth("RWMutexWrite10", rwShared(10, 0))
	atBoth("RWMutexWorkWrite100", rwShared(100, 100))
	atBoth("RWMutexWorkWrite10", rwShared(10, 100))
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		atBoth(fmt.Sprintf("Cond%d", n), condition)
	}
	atBoth("WaitGroupUncontended", wgUncontended)
	atBoth("WaitGroupAddDone", wgAddDone(0))
	atBoth("WaitGroupAddDoneWork", wgAddDone(100))
	atBoth("WaitGroupWait", wgWait(0))
	atBoth("WaitGroupWaitWork", wgWait(100))
	atBoth("WaitGroupActuallyWait", wgReally)
	atBoth("Once", once)
}

func goMutex(each, work int) func(r *row) {
	return func(r *row) {
		var m sync.Mutex
		locked := 0
		r.parallel(each, func(l *loop) {
			for l.more() {
				m.Lock()
				locked++
				m.Unlock()
				if work > 0 {
					busyWork(work)
				}
			}
		})
		check(locked == r.count/8+1+r.count, "locked %d times", locked)
	}
}

var less, more uint64

func transfer(m *sync.Mutex) {
	m.Lock()
	less -= 100
	more += 100
	m.Unlock()
}

func touch(data []uint64) {
	for i := 0; i < len(data); i += 4 {
		data[i]++
	}
}

func mutexNoSpin(r *row) {
	var m sync.Mutex
	r.parallel(4, func(l *loop) {
		c := make(chan bool)
		var data [4 << 10]uint64
		for i := 0; l.more(); i++ {
			if i%4 == 0 {
				transfer(&m)
				continue
			}
			touch(data[:])
			go func() {
				c <- true
			}()
			<-c
		}
	})
	check(more > 0 && less+more == 0, "a transfer is lost")
}

func mutexSpin(r *row) {
	var m sync.Mutex
	r.parallel(1, func(l *loop) {
		var data [16 << 10]uint64
		for l.more() {
			transfer(&m)
			touch(data[:])
		}
	})
	check(more > 0 && less+more == 0, "a transfer is lost")
}

func rwUncontended(r *row) {
	r.parallel(1, func(l *loop) {
		var p struct {
			sync.RWMutex
			pad [128]byte
		}
		for l.more() {
			p.RLock()
			p.RLock()
			p.RUnlock()
			p.RUnlock()
			p.Lock()
			p.Unlock()
		}
	})
}

func rwShared(every, work int) func(r *row) {
	return func(r *row) {
		var rw sync.RWMutex
		var reads atomic.Int64
		written := 0
		r.parallel(1, func(l *loop) {
			n := 0
			for i := 1; l.more(); i++ {
				if i%every == 0 {
					rw.Lock()
					written++
					rw.Unlock()
				} else {
					rw.RLock()
					if work > 0 {
						i = halves(i, work)
					}
					rw.RUnlock()
					n++
				}
			}
			reads.Add(int64(n))
		})
		check(written+int(reads.Load()) == r.count/8+1+r.count, "%d and %d", written,
			reads.Load())
	}
}

func condition(r *row) {
	r.twice(func(count int) {
		var done sync.WaitGroup
		c := sync.NewCond(&sync.Mutex{})
		arrived, meetings := 0, 0
		done.Add(r.n + 1)
		for k := 0; k <= r.n; k++ {
			go func() {
				for i := 0; i < count; i++ {
					c.L.Lock()
					if arrived == -1 {
						c.L.Unlock()
						break
					}
					arrived++
					if arrived == r.n+1 {
						arrived = 0
						meetings++
						c.Broadcast()
					} else {
						c.Wait()
					}
					c.L.Unlock()
				}
				c.L.Lock()
				arrived = -1
				c.Broadcast()
				c.L.Unlock()
				done.Done()
			}()
		}
		done.Wait()
		check(meetings > 0 && meetings <= count, "met %d times", meetings)
	})
}

func wgUncontended(r *row) {
	r.parallel(1, func(l *loop) {
		var p struct {
			sync.WaitGroup
			pad [128]byte
		}
		for l.more() {
			p.Add(1)
			p.Done()
			p.Wait()
		}
	})
}

func wgAddDone(work int) func(r *row) {
	return func(r *row) {
		var wg sync.WaitGroup
		r.parallel(1, func(l *loop) {
			for l.more() {
				wg.Add(1)
				if work > 0 {
					busyWork(work)
				}
				wg.Done()
			}
		})
		wg.Wait()
	}
}

func wgWait(work int) func(r *row) {
	return func(r *row) {
		var wg sync.WaitGroup
		r.parallel(1, func(l *loop) {
			for l.more() {
				wg.Wait()
				if work > 0 {
					busyWork(work)
				}
			}
		})
	}
}

func wgReally(r *row) {
	r.parallel(1, func(l *loop) {
		for l.more() {
			var wg sync.WaitGroup
			wg.Add(1)
			go func() {
				wg.Done()
			}()
			wg.Wait()
		}
	})
}

func once(r *row) {
	var o sync.Once
	did := 0
	r.parallel(1, func(l *loop) {
		for l.more() {
			o.Do(func() { did++ })
		}
	})
	check(did == 1, "done %d times", did)
}
