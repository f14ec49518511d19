// SPDX-License-Identifier: MIT

// Measures the rows of the benchmarks in Go.
//
// Each row is the row of the same name in bench/*.c: it does the same number of operations, counts
// and checks them in the same way, and measures the time in the first goroutine.  The program is
// started again for each row, as
//
//	go ROW PROCS [N COUNT]
//
// (N and COUNT as gmp-bench --list prints them) and prints one line of JSON for each figure, in the
// form of the C program's --lines.
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type row struct {
	name     string
	procs    int
	n, count int
	fn       func(r *row)
}

func (r *row) value(what, unit string, v float64) {
	if what != "" {
		what = ":" + what
	}
	fmt.Printf("{\"name\": \"%s%s\", \"procs\": %d, \"count\": %d, \"%s\": %.4f}\n",
		r.name, what, r.procs, r.count, unit, v)
}

func (r *row) time(d time.Duration, ops int) {
	r.value("", "ns", float64(d.Nanoseconds())/float64(ops))
}

func check(ok bool, format string, args ...any) {
	if !ok {
		fmt.Fprintf(os.Stderr, "go: "+format+"\n", args...)
		os.Exit(1)
	}
}

var rows = []row{
	{"yield/2", 1, 2, 4000000, yield},
	{"yield/1000", 1, 1000, 4000000, yield},
	{"yield/100000", 1, 100000, 2000000, yield},
	{"yield/2", 2, 2, 4000000, yield},
	{"yield/1000", 2, 1000, 4000000, yield},
	{"yield/100000", 2, 100000, 2000000, yield},
	{"spawn/1", 1, 1, 1000000, spawn},
	{"spawn/1000", 1, 1000, 1000000, spawn},
	{"spawn/100000", 1, 100000, 1000000, spawn},
	{"spawn/1", 2, 1, 1000000, spawn},
	{"spawn/1000", 2, 1000, 1000000, spawn},
	{"spawn/100000", 2, 100000, 1000000, spawn},
	{"memory/wait/100000", 1, 100000, 1, memoryWait},
	{"memory/wait/1000000", 1, 1000000, 1, memoryWait},
	{"memory/sleep/100000", 1, 100000, 1, memorySleep},
	{"memory/sleep/1000000", 1, 1000000, 1, memorySleep},
	{"mutex/alone", 1, 0, 10000000, mutexAlone},
	{"mutex/8", 1, 8, 4000000, mutexContended},
	{"mutex/8", 2, 8, 4000000, mutexContended},
	{"mutex/2000", 2, 2000, 2000000, mutexContended},
	{"mutex/20000", 2, 20000, 2000000, mutexContended},
	{"rwmutex/8 readers", 1, 8, 4000000, readers},
	{"rwmutex/8 readers", 2, 8, 4000000, readers},
	{"rwmutex/8 writers", 2, 8, 4000000, writers},
	{"rwmutex/8 mixed", 2, 8, 4000000, mixed},
	{"rwmutex/2000 writers", 2, 2000, 2000000, writers},
	{"rwmutex/2000 mixed", 2, 2000, 2000000, mixed},
	{"rwmutex/20000 writers", 2, 20000, 2000000, writers},
	{"rwmutex/20000 mixed", 2, 20000, 2000000, mixed},
	{"timer/reset", 1, 0, 2000000, timerReset},
	{"timer/create", 1, 0, 1000000, timerCreate},
	{"sleep/100us", 1, 100000, 2000, sleepAlone},
	{"sleep/100us", 2, 100000, 2000, sleepAlone},
	{"sleepers/100000", 2, 100000, 1, sleepers},
	{"ping/wg", 1, 0, 1000000, pingWaitGroup},
	{"ping/wg", 2, 0, 1000000, pingWaitGroup},
	{"ping/unix", 1, 0, 100000, pingUnix},
	{"ping/unix", 2, 0, 100000, pingUnix},
	{"ping/pipe", 1, 0, 100000, pingPipe},
	{"ping/pipe", 2, 0, 100000, pingPipe},
	{"ping/chan", 1, 0, 1000000, pingChan},
	{"ping/chan", 2, 0, 1000000, pingChan},
	{"chan/1x1", 1, 1, 4000000, passOn128},
	{"chan/1x1", 2, 1, 4000000, passOn128},
	{"chan/8x8", 1, 8, 4000000, passOn128},
	{"chan/8x8", 2, 8, 4000000, passOn128},
	{"chan/8x8 unbuffered", 2, 8, 2000000, passOn0},
	{"sieve/1500", 1, 1500, 1, sieve},
	{"sieve/1500", 2, 1500, 1, sieve},
	{"sieve/2000", 1, 2000, 1, sieve},
	{"sieve/2000", 2, 2000, 1, sieve},
	{"close/10000", 1, 10000, 20, closeOnMany},
	{"close/10000", 2, 10000, 20, closeOnMany},
	{"select/4 wakes", 1, 0, 1000000, selectWakes},
	{"select/4 wakes", 2, 0, 1000000, selectWakes},
	{"select/4 ready", 1, 0, 2000000, selectReady},
	{"select/4 try", 1, 0, 2000000, selectTry},
	{"select/crowd", 1, 100, 500000, selectCrowd},
	{"block/short", 1, 0, 2000000, blockShort},
	{"block/50", 2, 50, 1, blockFifty},
	{"idle/1000", 2, 1000, 1, idle},
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == "--rows" {
		for _, r := range rows {
			fmt.Printf("%s\t%d\n", r.name, r.procs)
		}
		return
	}
	check(len(os.Args) == 3 || len(os.Args) == 5, "usage: go ROW PROCS [N COUNT], or go --rows")
	procs, _ := strconv.Atoi(os.Args[2])
	for i := range rows {
		if rows[i].name == os.Args[1] && rows[i].procs == procs {
			if len(os.Args) == 5 {
				rows[i].n, _ = strconv.Atoi(os.Args[3])
				rows[i].count, _ = strconv.Atoi(os.Args[4])
			}
			runtime.GOMAXPROCS(procs)
			rows[i].fn(&rows[i])
			return
		}
	}
	check(false, "no row %s with %d procs", os.Args[1], procs)
}

// Rows of yield.c, which explains how the yields are counted.
func yield(r *row) {
	var goFlag, stop atomic.Bool
	var arrived, left atomic.Int64
	others, rounds := r.n-1, r.count/r.n
	counts := make([]int, others)

	for i := range counts {
		out := &counts[i]
		go func() {
			n := 0
			arrived.Add(1)
			for !goFlag.Load() {
				runtime.Gosched()
			}
			for !stop.Load() {
				runtime.Gosched()
				n++
			}
			*out = n
			left.Add(1)
		}()
	}
	for arrived.Load() < int64(others) {
		runtime.Gosched()
	}
	for i := 0; i < rounds/8+2; i++ {
		runtime.Gosched()
	}

	t0 := time.Now()
	goFlag.Store(true)
	for i := 0; i < rounds; i++ {
		runtime.Gosched()
	}
	d := time.Since(t0)
	stop.Store(true)

	for left.Load() < int64(others) {
		runtime.Gosched()
	}
	total, least := rounds, rounds
	for _, n := range counts {
		total += n
		least = min(least, n)
	}
	if r.procs > 1 {
		least = rounds
		if r.n > r.procs {
			least = total / r.n
		}
	}
	check(least >= rounds/4, "unfair: one yielded %d times, another %d times", rounds, least)
	r.time(d, total)
}

// Rows of spawn.c.  The goroutines take no argument, as that would allocate a closure for each.
// With one P the counter is not atomic: its increment is a single instruction, which preemption
// cannot split.
var (
	spawnWg   sync.WaitGroup
	ran       int
	ranShared atomic.Int64
)

func work() {
	ran++
	spawnWg.Done()
}

func workShared() {
	ranShared.Add(1)
	spawnWg.Done()
}

func batch(n int, shared bool) {
	spawnWg.Add(n)
	if shared {
		for i := 0; i < n; i++ {
			go workShared()
		}
	} else {
		for i := 0; i < n; i++ {
			go work()
		}
	}
	spawnWg.Wait()
}

func spawn(r *row) {
	batches(r, batch)
}

// batches runs batches of goroutines; each increments ran or, with several Ps, ranShared.
func batches(r *row, batch func(n int, shared bool)) {
	rounds := r.count / r.n
	warm := rounds/8 + 1
	for i := 0; i < warm; i++ {
		batch(r.n, r.procs > 1)
	}
	t0 := time.Now()
	for i := 0; i < rounds; i++ {
		batch(r.n, r.procs > 1)
	}
	d := time.Since(t0)
	total := ran + int(ranShared.Load())
	check(total == (warm+rounds)*r.n, "%d ran", total)
	r.time(d, rounds*r.n)
}

// status returns the sum of these lines of /proc/self/status in KiB.
func status(whats ...string) int {
	data, err := os.ReadFile("/proc/self/status")
	check(err == nil, "%v", err)
	sum, found := 0, 0
	for _, line := range strings.Split(string(data), "\n") {
		f := strings.Fields(line)
		if len(f) == 3 && slices.Contains(whats, strings.TrimSuffix(f[0], ":")) {
			kib, err := strconv.Atoi(f[1])
			check(err == nil, "%v", err)
			sum += kib
			found++
		}
	}
	check(found == len(whats), "/proc/self/status lacks one of %v", whats)
	return sum
}

// Rows of memory.c.
func memoryNow() int {
	return status("VmRSS", "VmPTE") * 1024
}

func warmUp() {
	var wg sync.WaitGroup
	wg.Add(64)
	for i := 0; i < 64; i++ {
		go wg.Done()
	}
	wg.Wait()
	time.Sleep(time.Microsecond)
	memoryNow()
	runtime.GC()
	debug.FreeOSMemory()
}

func memoryWait(r *row) {
	var gate, all sync.WaitGroup
	var arrived, woken atomic.Int64

	warmUp()
	gate.Add(1)
	all.Add(r.n)
	before := memoryNow()
	for i := 0; i < r.n; i++ {
		go func() {
			arrived.Add(1)
			gate.Wait()
			woken.Add(1)
			all.Done()
		}()
	}
	for arrived.Load() < int64(r.n) {
		runtime.Gosched()
	}
	runtime.Gosched()
	after := memoryNow()
	check(woken.Load() == 0, "%d woke too early", woken.Load())
	gate.Done()
	all.Wait()
	check(woken.Load() == int64(r.n), "%d woke", woken.Load())
	r.value("", "bytes", float64(after-before)/float64(r.n))
}

func memorySleep(r *row) {
	var arrived, woken atomic.Int64

	warmUp()
	before := memoryNow()
	for i := 0; i < r.n; i++ {
		go func() {
			arrived.Add(1)
			time.Sleep(time.Hour)
			woken.Add(1)
		}()
	}
	for arrived.Load() < int64(r.n) {
		runtime.Gosched()
	}
	runtime.Gosched()
	after := memoryNow()
	check(woken.Load() == 0, "%d woke too early", woken.Load())
	r.value("", "bytes", float64(after-before)/float64(r.n))
}

// Rows of mutex.c.
func mutexAlone(r *row) {
	var m sync.Mutex
	var t0 time.Time
	counter, warm := 0, r.count/8
	for i := -warm; i < r.count; i++ {
		if i == 0 {
			t0 = time.Now()
		}
		m.Lock()
		counter++
		m.Unlock()
	}
	d := time.Since(t0)
	check(counter == r.count+warm, "counter is %d", counter)
	check(m.TryLock(), "still locked")
	r.time(d, r.count)
}

func contend(n int, fn func()) time.Duration {
	var arrived, gate, done sync.WaitGroup
	arrived.Add(n)
	gate.Add(1)
	done.Add(n)
	for i := 0; i < n; i++ {
		go func() {
			arrived.Done()
			gate.Wait()
			fn()
			done.Done()
		}()
	}
	arrived.Wait()
	time.Sleep(time.Millisecond)
	t0 := time.Now()
	gate.Done()
	done.Wait()
	return time.Since(t0)
}

func mutexContended(r *row) {
	var m sync.Mutex
	counter, each := 0, r.count/r.n
	d := contend(r.n, func() {
		for i := 0; i < each; i++ {
			m.Lock()
			counter++
			m.Unlock()
		}
	})
	check(counter == r.count, "counter is %d", counter)
	r.time(d, r.count)
}

func readers(r *row) {
	var rw sync.RWMutex
	var counter, seen atomic.Int64
	each := r.count / r.n
	counter.Store(1)
	d := contend(r.n, func() {
		sum := int64(0)
		for i := 0; i < each; i++ {
			rw.RLock()
			sum += counter.Load()
			rw.RUnlock()
		}
		seen.Add(sum)
	})
	check(seen.Load() == int64(r.count), "%d reads", seen.Load())
	check(rw.TryLock(), "still locked")
	r.time(d, r.count)
}

func writers(r *row) { writeOneIn(r, 1) }

func mixed(r *row) { writeOneIn(r, 10) }

func writeOneIn(r *row, k int) {
	var rw sync.RWMutex
	var seen atomic.Int64
	counter, each := 1, r.count/r.n
	d := contend(r.n, func() {
		sum, writes := int64(0), int64(0)
		for i := 0; i < each; i++ {
			if i%k == 0 {
				rw.Lock()
				counter++
				rw.Unlock()
				writes++
			} else {
				rw.RLock()
				if counter > 0 {
					sum++
				}
				rw.RUnlock()
			}
		}
		seen.Add(sum + writes)
	})
	check(counter-1 == r.n*((each+k-1)/k), "counter is %d", counter)
	check(seen.Load() == int64(each*r.n), "%d locks", seen.Load())
	check(rw.TryLock(), "still locked")
	r.time(d, each*r.n)
}

// Rows of timer.c.
func timerReset(r *row) {
	var fired atomic.Int64
	var t0 time.Time
	t := time.AfterFunc(time.Hour, func() { fired.Add(1) })
	t.Stop()
	stopped, warm := 0, r.count/8
	for i := -warm; i < r.count; i++ {
		if i == 0 {
			t0 = time.Now()
		}
		t.Reset(time.Hour)
		if t.Stop() {
			stopped++
		}
	}
	d := time.Since(t0)
	check(stopped == r.count+warm, "%d stopped", stopped)
	check(fired.Load() == 0, "it fired")
	r.time(d, r.count)
}

func timerCreate(r *row) {
	var fired atomic.Int64
	var t0 time.Time
	fire := func() { fired.Add(1) }
	stopped, warm := 0, r.count/8
	for i := -warm; i < r.count; i++ {
		if i == 0 {
			t0 = time.Now()
		}
		if time.AfterFunc(time.Hour, fire).Stop() {
			stopped++
		}
	}
	d := time.Since(t0)
	check(stopped == r.count+warm, "%d stopped", stopped)
	check(fired.Load() == 0, "it fired")
	r.time(d, r.count)
}

func reportLateness(r *row, late []int64) {
	sort.Slice(late, func(i, j int) bool { return late[i] < late[j] })
	check(late[0] >= 0, "one woke %d ns too early", -late[0])
	r.value("p50", "ns", float64(late[len(late)/2]))
	r.value("p99", "ns", float64(late[len(late)*99/100]))
}

func sleepAlone(r *row) {
	late := make([]int64, r.count)
	for i := range late {
		t0 := time.Now()
		time.Sleep(time.Duration(r.n))
		late[i] = int64(time.Since(t0)) - int64(r.n)
	}
	reportLateness(r, late)
}

func cpuNow() int64 {
	var u syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil, "getrusage")
	return u.Utime.Nano() + u.Stime.Nano()
}

func sleepers(r *row) {
	var done sync.WaitGroup
	late := make([]int64, r.n)
	x := uint64(88172645463325252)
	for i := range late {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		late[i] = 1000000 + int64(x%999000000)
	}
	done.Add(r.n)
	cpu := cpuNow()
	for i := range late {
		slot := &late[i]
		go func() {
			wish := *slot
			t0 := time.Now()
			time.Sleep(time.Duration(wish))
			*slot = int64(time.Since(t0)) - wish
			done.Done()
		}()
	}
	done.Wait()
	r.value("cpu", "ms", float64(cpuNow()-cpu)/1e6)
	reportLateness(r, late)
}

// Rows of ping.c.
func pingWaitGroup(r *row) {
	var ping, pong, done sync.WaitGroup
	var t0 time.Time
	served, warm := 0, r.count/8
	ping.Add(1)
	done.Add(1)
	go func() {
		for i := 0; i < r.count+warm; i++ {
			ping.Wait()
			ping.Add(1)
			served++
			pong.Done()
		}
		done.Done()
	}()
	for i := -warm; i < r.count; i++ {
		if i == 0 {
			t0 = time.Now()
		}
		pong.Add(1)
		ping.Done()
		pong.Wait()
		if served != i+warm+1 {
			check(false, "%d served", served)
		}
	}
	d := time.Since(t0)
	done.Wait()
	r.time(d, r.count)
}

func pingUnix(r *row) {
	var t0 time.Time
	served, warm := 0, r.count/8
	l, err := net.Listen("unix", fmt.Sprintf("@gmp-bench-%d", os.Getpid()))
	check(err == nil, "%v", err)
	done := make(chan struct{})
	go func() {
		c, err := l.Accept()
		check(err == nil, "%v", err)
		b := make([]byte, 1)
		for {
			if n, _ := c.Read(b); n != 1 {
				break
			}
			b[0]++
			if _, err := c.Write(b); err != nil {
				check(false, "%v", err)
			}
			served++
		}
		c.Close()
		close(done)
	}()
	c, err := net.Dial("unix", l.Addr().String())
	check(err == nil, "%v", err)
	b := make([]byte, 1)
	for i := -warm; i < r.count; i++ {
		if i == 0 {
			t0 = time.Now()
		}
		b[0] = byte(i)
		if _, err := c.Write(b); err != nil {
			check(false, "%v", err)
		}
		if n, err := c.Read(b); n != 1 || err != nil || b[0] != byte(i)+1 {
			check(false, "got %d bytes, %d, %v", n, b[0], err)
		}
	}
	d := time.Since(t0)
	c.Close()
	<-done
	l.Close()
	check(served == r.count+warm, "%d served", served)
	r.time(d, r.count)
}

func pingPipe(r *row) {
	var t0 time.Time
	warm := r.count / 8
	thereIn, thereOut, err := os.Pipe()
	check(err == nil, "%v", err)
	backIn, backOut, err := os.Pipe()
	check(err == nil, "%v", err)
	go func() {
		b := make([]byte, 1)
		for {
			if n, _ := thereIn.Read(b); n != 1 {
				break
			}
			b[0]++
			backOut.Write(b)
		}
	}()
	b := make([]byte, 1)
	for i := -warm; i < r.count; i++ {
		if i == 0 {
			t0 = time.Now()
		}
		b[0] = byte(i)
		thereOut.Write(b)
		if n, err := backIn.Read(b); n != 1 || err != nil || b[0] != byte(i)+1 {
			check(false, "got %d bytes, %d, %v", n, b[0], err)
		}
	}
	d := time.Since(t0)
	thereOut.Close()
	r.time(d, r.count)
}

// Row of idle.c.
func idle(r *row) {
	var gate, done sync.WaitGroup
	var arrived, woken atomic.Int64
	gate.Add(1)
	done.Add(r.n)
	for i := 0; i < r.n; i++ {
		go func() {
			arrived.Add(1)
			gate.Wait()
			woken.Add(1)
			done.Done()
		}()
	}
	time.Sleep(3 * time.Second)
	check(arrived.Load() == int64(r.n), "%d parked", arrived.Load())
	t0 := time.Now()
	cpu := cpuNow()
	time.Sleep(5 * time.Second)
	cpu = cpuNow() - cpu
	d := time.Since(t0)
	gate.Done()
	done.Wait()
	check(woken.Load() == int64(r.n), "%d woke", woken.Load())
	r.value("", "percent", 100*float64(cpu)/float64(d))
}

// Rows of block.c.  The difference of Syscall and RawSyscall is the cost of enter and leave.
func blockShort(r *row) {
	type rawCall = func(trap, a1, a2, a3 uintptr) (uintptr, uintptr, syscall.Errno)
	measure := func(call rawCall) time.Duration {
		var t0 time.Time
		for i := -r.count / 8; i < r.count; i++ {
			if i == 0 {
				t0 = time.Now()
			}
			call(syscall.SYS_GETPPID, 0, 0, 0)
		}
		return time.Since(t0)
	}
	raw := measure(syscall.RawSyscall)
	r.time(max(measure(syscall.Syscall)-raw, 0), r.count)
}

func blockFifty(r *row) {
	var turns, stop atomic.Int64
	pace := func(n int) (float64, time.Duration) {
		var done, ended sync.WaitGroup
		stop.Store(0)
		ended.Add(1)
		go func() {
			x := uint64(1)
			for stop.Load() == 0 {
				for i := 0; i < 4000; i++ {
					x = x*3 + 1
				}
				if x != 0 {
					turns.Add(1)
				}
			}
			ended.Done()
		}()
		time.Sleep(20 * time.Millisecond)
		done.Add(n)
		had, t0 := turns.Load(), time.Now()
		for i := 0; i < n; i++ {
			go func() {
				t := syscall.NsecToTimespec(200000000)
				for syscall.Nanosleep(&t, &t) != nil {
				}
				done.Done()
			}()
		}
		if n == 0 {
			time.Sleep(200 * time.Millisecond)
		}
		done.Wait()
		wall := time.Since(t0)
		had = turns.Load() - had
		stop.Store(1)
		ended.Wait()
		return float64(had) / float64(wall), wall
	}
	alone, _ := pace(0)
	beside, wall := pace(r.n)
	r.value("wall", "ms", float64(wall.Nanoseconds())/1e6)
	r.value("lost", "percent", max(0, 100-100*beside/alone))
}
