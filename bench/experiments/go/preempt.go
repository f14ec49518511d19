// SPDX-License-Identifier: MIT

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const chunk = 20000 // iterations between two reads of the clock

var stepNs float64 // the time of one iteration

//go:noinline
func churn(x uint64, steps int64) uint64 {
	for ; steps > 0; steps-- {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

// churned returns churn(x, steps) in the time of its logarithm.
func churned(x uint64, steps int64) uint64 {
	var a, b uint64 = 6364136223846793005, 1442695040888963407
	for ; steps != 0; steps /= 2 {
		if steps%2 != 0 {
			x = x*a + b
		}
		b += a * b
		a *= a
	}
	return x
}

func calibrate() {
	x := uint64(1)
	for i := 0; i < 40; i++ {
		t0 := time.Now()
		x = churn(x, 25*chunk)
		took := float64(time.Since(t0).Nanoseconds()) / (25 * chunk)
		if i == 0 || took < stepNs {
			stepNs = took
		}
	}
	check(x != 0, "a wrong result")
}

func stepsOf(ms int) int64 { return int64(float64(ms) * 1e6 / stepNs) }

// preempt.c: the same arguments; raw is sleep with a system call that Go's scheduler does not see,
// as gmp does not see usleep.
func preempt(args []string, n []int) {
	if args[0] == "sample" {
		samplePid(n[1], n[2])
		return
	}
	calibrate()
	switch args[0] {
	case "ticker":
		preemptTicker(n[1], n[2])
	case "sleeper":
		preemptSleeper(n[1], n[2])
	case "serve":
		preemptServe(n[1], n[2], n[3], n[4])
	case "speed":
		preemptSpeed(n[1], n[2])
	case "tasks":
		preemptTasks(n[1], n[2], n[3])
	case "sleep", "raw", "crowd":
		preemptCrowd(args[0], n[1], n[2])
	default:
		check(false, "preempt %s is unknown", args[0])
	}
}

type hogs struct {
	chunks     []int64
	begin, end time.Time
	stop       atomic.Bool
	done       sync.WaitGroup
}

func newHogs(count int) *hogs {
	h := &hogs{chunks: make([]int64, count)}
	h.done.Add(count)
	return h
}

func (h *hogs) start(ms int) {
	h.begin = time.Now()
	h.end = h.begin.Add(time.Duration(ms) * time.Millisecond)
	for i := range h.chunks {
		go func(i int) {
			chunks, x := int64(0), uint64(1)
			for ; time.Now().Before(h.end) && !h.stop.Load(); chunks++ {
				x = churn(x, chunk)
			}
			check(x == churned(1, chunks*chunk), "a wrong result")
			h.chunks[i] = chunks
			h.done.Done()
		}(i)
	}
}

func (h *hogs) report(end time.Time) {
	least, most, all := 1e9, 0.0, 0.0
	for _, chunks := range h.chunks {
		cpu := float64(chunks*chunk) * stepNs
		share := 100 * cpu / float64(end.Sub(h.begin).Nanoseconds())
		least, most, all = min(least, share), max(most, share), all+share
	}
	figure("least", "percent", least)
	figure("most", "percent", most)
	figure("all", "percent", all)
}

// tick receives ticks of 1 ms until one is received when over says so, and reports the gaps from
// the given time on.
func tick(from time.Time, over func(now time.Time) bool) {
	gaps := make([]float64, 0, 100000)
	ticker := time.NewTicker(time.Millisecond)
	last := from
	for {
		<-ticker.C
		now := time.Now()
		if now.After(from) {
			gaps = append(gaps, float64(now.Sub(last).Nanoseconds())/1e6)
			last = now
			if over(now) {
				break
			}
		}
	}
	ticker.Stop()
	reportGaps(gaps)
}

func reportGaps(gaps []float64) {
	sort.Float64s(gaps)
	figure("p50", "ms", gaps[len(gaps)/2])
	figure("p99", "ms", gaps[len(gaps)*99/100])
	figure("max", "ms", gaps[len(gaps)-1])
}

func preemptTicker(ms, count int) {
	h := newHogs(count)
	h.start(ms)
	over := func(now time.Time) bool { return !now.Before(h.end) }
	tick(h.begin.Add(20*time.Millisecond), over)
	h.done.Wait()
	h.report(h.end)
}

func preemptSleeper(ms, count int) {
	h := newHogs(count)
	h.start(ms)
	gaps := make([]float64, 0, 100000)
	// At least once: beside many, main may not run before the end of a short run.
	for t0 := time.Now(); len(gaps) == 0 || t0.Before(h.end); t0 = time.Now() {
		time.Sleep(time.Millisecond)
		gaps = append(gaps, float64(time.Since(t0).Nanoseconds())/1e6)
	}
	h.done.Wait()
	reportGaps(gaps)
	h.report(h.end)
}

func preemptServe(ms, count, connections, requests int) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err == nil, "%v", err)
	h := newHogs(count)
	var gets atomic.Int64
	session := func(c net.Conn) {
		in, out := make([]byte, 4096), make([]byte, 0, 4096)
		for {
			n, err := c.Read(in)
			if err != nil {
				break
			}
			command := in[:n]
			check(command[0] == '*' && command[n-1] == '\n', "a part of a command")
			reply := "*2\r\n$4\r\nsave\r\n$0\r\n\r\n"
			if bytes.Contains(command, []byte("\r\nGET\r\n")) {
				reply = "$3\r\nxxx\r\n"
				if gets.Add(1) == int64(2*connections) {
					h.start(ms)
				}
			} else if bytes.Contains(command, []byte("\r\nPING\r\n")) {
				reply = "+PONG\r\n"
			}
			out = out[:0]
			for i, b := range command {
				if b == '*' && (i == 0 || command[i-1] == '\n') {
					out = append(out, reply...)
				}
			}
			if _, err := c.Write(out); err != nil {
				break
			}
		}
		c.Close()
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go session(c)
		}
	}()
	load := fmt.Sprintf("ulimit -n $(ulimit -Hn); "+
		"exec redis-benchmark -p %d -t get -c %d -n %d --csv 2>/dev/null",
		listener.Addr().(*net.TCPAddr).Port, connections, requests)
	csv, err := exec.Command("sh", "-c", load).Output()
	h.stop.Store(true)
	end := time.Now()
	check(err == nil, "redis-benchmark: %v", err)
	h.done.Wait()
	var rate, mean, least, p50, p95, p99, most float64
	lines := strings.Split(strings.TrimSpace(string(csv)), "\n")
	last := strings.NewReplacer(`"`, "", ",", " ").Replace(lines[len(lines)-1])
	_, err = fmt.Sscanf(last, "GET %f %f %f %f %f %f %f", &rate, &mean, &least, &p50, &p95,
		&p99, &most)
	check(err == nil, "redis-benchmark failed: %s", last)
	check(gets.Load() >= int64(requests), "%d requests", gets.Load())
	figure("p50", "ms", p50)
	figure("p99", "ms", p99)
	figure("max", "ms", most)
	figure("rate", "per_second", rate)
	if end.After(h.end) {
		end = h.end
	}
	h.report(end)
}

// preemptSpeed has no OS thread without a runtime to compare with: it reports the loop alone.
func preemptSpeed(pairs, ms int) {
	steps := stepsOf(ms)
	expected := churned(1, steps)
	ns := make([]float64, pairs)
	for i := range ns {
		c := cpu()
		x := churn(1, steps)
		ns[i] = (cpu() - c) / float64(steps)
		check(x == expected, "a wrong result")
	}
	sort.Float64s(ns)
	figure("loop", "ns", ns[pairs/2])
}

func running(path string) bool {
	stat, _ := os.ReadFile(path)
	i := bytes.LastIndexByte(stat, ')')
	return i >= 0 && i+2 < len(stat) && stat[i+2] == 'R'
}

// samplePid is the sampler of preempt.c, a process of its own: it ends with its standard input.
func samplePid(pid, procs int) {
	var closed atomic.Bool
	go func() {
		io.Copy(io.Discard, os.Stdin)
		closed.Store(true)
	}()
	most, below, samples := 0, 0, 0
	folder := fmt.Sprintf("/proc/%d/task", pid)
	for !closed.Load() {
		time.Sleep(2 * time.Millisecond)
		count := 0
		threads, _ := os.ReadDir(folder)
		for _, t := range threads {
			if running(folder + "/" + t.Name() + "/stat") {
				count++
			}
		}
		samples++
		most = max(most, count)
		if count < procs {
			below++
		}
	}
	fmt.Println(most, below, samples)
}

// churnInParts returns churn(1, steps), and notes the longest gap between two parts in ns.
func churnInParts(steps int64, longest *atomic.Int64) uint64 {
	x, most, last := uint64(1), int64(0), time.Now()
	for ; steps > 0; steps -= chunk {
		x = churn(x, min(steps, chunk))
		now := time.Now()
		most = max(most, now.Sub(last).Nanoseconds())
		last = now
	}
	for seen := longest.Load(); seen < most; seen = longest.Load() {
		longest.CompareAndSwap(seen, most)
	}
	return x
}

func preemptTasks(count, ms, procs int) {
	sampler := exec.Command("/proc/self/exe", "preempt", "sample", fmt.Sprint(os.Getpid()),
		fmt.Sprint(procs))
	in, err := sampler.StdinPipe()
	check(err == nil, "%v", err)
	var out bytes.Buffer
	sampler.Stdout = &out
	check(sampler.Start() == nil, "the sampler does not start")
	steps := stepsOf(ms)
	expected := churned(1, steps)
	var ran, longest atomic.Int64
	var done sync.WaitGroup
	c, t0 := cpu(), time.Now()
	done.Add(count)
	for i := 0; i < count; i++ {
		go func() {
			check(churnInParts(steps, &longest) == expected, "a wrong result")
			ran.Add(1)
			done.Done()
		}()
	}
	done.Wait()
	total, used := float64(time.Since(t0).Nanoseconds()), cpu()-c
	in.Close()
	check(sampler.Wait() == nil, "the sampler failed")
	var most, below, samples float64
	_, err = fmt.Sscan(out.String(), &most, &below, &samples)
	check(err == nil && samples > 0, "the sampler failed")
	check(ran.Load() == int64(count), "%d ran", ran.Load())
	figure("total", "ms", total/1e6)
	figure("of cpu", "", total/(used/float64(procs)))
	figure("of work", "", total/(float64(count)*float64(ms)*1e6/float64(procs)))
	figure("gap", "ms", float64(longest.Load())/1e6)
	figure("threads", "", most)
	figure("below", "percent", 100*below/samples)
}

// A signal (Go preempts by one) ends nanosleep early.
func nanosleep(ms int, raw bool) {
	left := syscall.NsecToTimespec(int64(ms) * 1e6)
	for {
		var err error
		if raw {
			_, _, e := syscall.RawSyscall(syscall.SYS_NANOSLEEP,
				uintptr(unsafe.Pointer(&left)), uintptr(unsafe.Pointer(&left)), 0)
			if e != 0 {
				err = e
			}
		} else {
			err = syscall.Nanosleep(&left, &left)
		}
		if err != syscall.EINTR {
			check(err == nil, "nanosleep: %v", err)
			return
		}
	}
}

func preemptCrowd(way string, count, ms int) {
	steps := stepsOf(ms)
	expected := churned(1, steps)
	var left, ended atomic.Int64
	var done sync.WaitGroup
	t0 := time.Now()
	left.Store(int64(count))
	done.Add(count)
	for i := 0; i < count; i++ {
		go func() {
			if way == "crowd" {
				check(churn(1, steps) == expected, "a wrong result")
			} else {
				nanosleep(ms, way == "raw")
			}
			if left.Add(-1) == 0 {
				ended.Store(time.Since(t0).Nanoseconds())
			}
			done.Done()
		}()
	}
	tick(t0, func(time.Time) bool { return ended.Load() != 0 })
	done.Wait()
	figure("total", "ms", float64(ended.Load())/1e6)
}
