// SPDX-License-Identifier: MIT

// Runs the work of the experiments (the programs of the folder above) in Go.
//
// `exp-go NAME ARGUMENTS...` runs the program NAME; the last argument is GOMAXPROCS.  The work, the
// checks and the printed lines are those of the C program.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func check(ok bool, format string, args ...any) {
	if !ok {
		fmt.Fprintf(os.Stderr, "go: "+format+"\n", args...)
		os.Exit(1)
	}
}

func figure(name, unit string, value float64) {
	fmt.Printf("%s\t%s\t%.4f\n", name, unit, value)
}

// cpu returns the CPU time of all threads in ns.
func cpu() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

func faults() float64 {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return float64(u.Minflt)
}

// status returns the value of a line of /proc/self/status in KiB.
func status(what string) float64 {
	data, err := os.ReadFile("/proc/self/status")
	check(err == nil, "%v", err)
	for _, line := range strings.Split(string(data), "\n") {
		f := strings.Fields(line)
		if len(f) == 3 && f[0] == what+":" {
			kib, err := strconv.Atoi(f[1])
			check(err == nil, "%v", err)
			return float64(kib)
		}
	}
	check(false, "/proc/self/status lacks %s", what)
	return 0
}

var submitTo func(capacity int) func(func()) // set by ants.go, if it is built

func main() {
	programs := map[string]func(args []string, n []int){
		"pingpong": pingpong, "work": work, "tasks": tasks, "sieve": sieve,
		"yields": yields, "preempt": preempt,
	}
	check(len(os.Args) > 3 && programs[os.Args[1]] != nil, "usage: exp-go NAME ARGUMENTS")
	args := os.Args[2:]
	numbers := make([]int, len(args))
	for i := range args {
		numbers[i], _ = strconv.Atoi(args[i])
	}
	runtime.GOMAXPROCS(numbers[len(numbers)-1])
	programs[os.Args[1]](args, numbers)
}

// pingpong.c: chan ROUNDS PROCS, yield ROUNDS PROCS
func pingpong(args []string, n []int) {
	rounds := n[1]
	var value atomic.Int64
	c, t0 := cpu(), time.Now()
	if args[0] == "chan" {
		there, back := make(chan int), make(chan int)
		go func() {
			for i := 0; i < rounds; i++ {
				back <- <-there + 1
			}
		}()
		v := 0
		for i := 0; i < rounds; i++ {
			there <- v
			v = <-back + 1
		}
		value.Store(int64(v))
	} else {
		var done sync.WaitGroup
		done.Add(2)
		for k := 0; k < 2; k++ {
			go func() {
				for i := 0; i < rounds; i++ {
					value.Add(1)
					runtime.Gosched()
				}
				done.Done()
			}()
		}
		done.Wait()
	}
	ns := float64(time.Since(t0).Nanoseconds())
	check(value.Load() == int64(2*rounds), "%d passed on", value.Load())
	figure("message", "ns", ns/float64(2*rounds))
	figure("cpu", "ns", (cpu()-c)/float64(2*rounds))
}

// work.c: sum|docs N WORKERS PROCS
func work(args []string, n []int) {
	count, workers := n[1], n[2]
	var numbers []int32
	var total, next, found atomic.Int64
	document := []byte(strings.Repeat("a", 1024) + "green" + strings.Repeat("a", 1018))
	if args[0] == "sum" {
		numbers = make([]int32, count)
		for i := range numbers {
			numbers[i] = int32(i)
		}
	}
	c, t0 := cpu(), time.Now()
	var done sync.WaitGroup
	done.Add(workers)
	for w := 0; w < workers; w++ {
		go func(w int) {
			if args[0] == "sum" {
				var sum int64
				for _, v := range numbers[count*w/workers : count*(w+1)/workers] {
					sum += int64(v)
				}
				total.Add(sum)
			} else {
				for next.Add(1) <= int64(count) {
					time.Sleep(time.Millisecond)
					if strings.Contains(string(document), "green") {
						found.Add(1)
					}
				}
			}
			done.Done()
		}(w)
	}
	done.Wait()
	d := time.Since(t0)
	if args[0] == "sum" {
		check(total.Load() == int64(count)*int64(count-1)/2, "a wrong sum")
	} else {
		check(found.Load() == int64(count), "found in %d", found.Load())
	}
	figure("count", "", float64(count))
	figure("time", "ms", float64(d.Nanoseconds())/1e6)
	figure("cpu", "ms", (cpu()-c)/1e6)
}

// tasks.c: green|pool N CAPACITY PROCS
func tasks(args []string, n []int) {
	var begun, ran, most atomic.Int64
	var all sync.WaitGroup
	task := func() {
		if alive := begun.Add(1) - ran.Load(); alive > most.Load() {
			most.Store(alive)
		}
		time.Sleep(10 * time.Millisecond)
		ran.Add(1)
		all.Done()
	}
	submit := func(task func()) { go task() }
	if args[0] == "pool" {
		check(submitTo != nil, "ants is missing")
		submit = submitTo(n[2])
	}
	before := status("VmRSS") + status("VmPTE")
	all.Add(n[1])
	t0 := time.Now()
	for i := 0; i < n[1]; i++ {
		submit(task)
	}
	submitted := time.Since(t0)
	all.Wait()
	d := time.Since(t0)
	check(ran.Load() == int64(n[1]), "%d ran", ran.Load())
	figure("time", "ms", float64(d.Nanoseconds())/1e6)
	figure("submit", "per_second", float64(n[1])/submitted.Seconds())
	figure("alive", "tasks", float64(most.Load()))
	figure("peak", "MiB", (status("VmHWM")+status("VmPTE")-before)/1024)
}

// sieve.c: PRIMES PROCS
func sieve(args []string, n []int) {
	isPrime := func(v int) bool {
		for d := 2; d*d <= v; d++ {
			if v%d == 0 {
				return false
			}
		}
		return true
	}
	c0, t0 := cpu(), time.Now()
	c := make(chan int)
	go func(c chan int) {
		for i := 2; ; i++ {
			c <- i
		}
	}(c)
	found, expected := []int{}, 2
	for i := 0; i < n[0]; i++ {
		p := <-c
		check(p == expected, "%d is no prime", p)
		for expected++; !isPrime(expected); expected++ {
		}
		found = append(found, p)
		next := make(chan int)
		go func(in, out chan int, p int) {
			for v := range in {
				if v%p != 0 {
					out <- v
				}
			}
		}(c, next, p)
		c = next
	}
	d, used := time.Since(t0), cpu()-c0
	messages := 0
	for v := 2; v <= found[n[0]-1]; v++ {
		k := 0
		for v%found[k] != 0 {
			k++
		}
		messages += k + 1
	}
	figure("time", "ms", float64(d.Nanoseconds())/1e6)
	figure("message", "ns", float64(d.Nanoseconds())/float64(messages))
	figure("cpu", "ns", used/float64(messages))
}

// yields.c: N LEAST_YIELDS PROCS
func yields(args []string, n []int) {
	const each = 100
	var yielded atomic.Int64
	batch := func() {
		var done sync.WaitGroup
		done.Add(n[0])
		yielded.Store(0)
		for i := 0; i < n[0]; i++ {
			go func() {
				for k := 0; k < each; k++ {
					runtime.Gosched()
				}
				yielded.Add(each)
				done.Done()
			}()
		}
		done.Wait()
		check(yielded.Load() == int64(n[0]*each), "%d yields", yielded.Load())
	}
	batches := (n[1] + n[0]*each - 1) / (n[0] * each)
	f, t0 := faults(), time.Now()
	batch()
	figure("first", "ns", float64(time.Since(t0).Nanoseconds())/float64(n[0]*each))
	figure("faults", "per_thread", (faults()-f)/float64(n[0]))
	c := cpu()
	t0 = time.Now()
	for i := 0; i < batches; i++ {
		batch()
	}
	all := float64(batches * n[0] * each)
	figure("yield", "ns", float64(time.Since(t0).Nanoseconds())/all)
	figure("cpu", "ns", (cpu()-c)/all)
}
