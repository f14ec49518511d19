# SPDX-License-Identifier: MIT
"""
The experiments: what each claims, which points it measures, and the function of answers.py that
says what the figures show.
"""

import os
import shutil
from dataclasses import dataclass, field
from statistics import median

import answers


@dataclass
class Size:
    level: int           # 0 smoke, 1 quick, 2 full
    brief: bool = False  # without the points that take longest

    def pick(self, smoke, quick, full):
        return (smoke, quick, full)[self.level]


@dataclass
class Job:
    """A point: exp-PROGRAM ARGUMENTS; with program "go" exp-go ARGUMENTS, with "gmp-run" exp-spin
    ARGUMENTS under gmp-run."""
    series: str
    x: object
    program: str
    arguments: list
    env: dict = field(default_factory=dict)
    most: int = 9        # in so many rounds at most
    mib: int = 0         # not where less memory is free
    ants: bool = False   # needs it
    cpus: int = 0        # keep to so many


class Results:
    def __init__(self):
        self.at, self.order, self.units = {}, [], {}

    def add(self, series, x, figure, unit, value):
        if (series, x) not in self.order:
            self.order.append((series, x))
        self.at.setdefault((series, x, figure), []).append(value)
        self.units[figure] = unit

    def points(self):
        return self.order

    def series(self):
        return list(dict.fromkeys(s for s, _ in self.order))

    def xs(self):
        xs = list(dict.fromkeys(x for _, x in self.order))
        return sorted(xs) if all(isinstance(x, (int, float)) for x in xs) else xs

    def values(self, series, x, figure):
        return self.at.get((series, x, figure), [])

    def get(self, series, x, figure):
        values = self.values(series, x, figure)
        return median(values) if values else None

    def rows(self, middle):
        return [{"series": s, "x": x, "figure": f, "unit": self.units[f], "median": middle(v),
                 "runs": v} for (s, x, f), v in self.at.items()]


@dataclass
class Experiment:
    number: int
    name: str
    title: str
    claim: str
    work: str
    columns: list           # (figure, name, unit); the first is the plot's
    jobs: object            # of a Size
    answer: object          # of Results
    misleads: str
    x_label: str = ""
    series_label: str = ""
    matrix: bool = False    # a table for each figure, with a column for each series
    lines: bool = False     # the plot; otherwise bars
    log: bool = True
    servers: bool = False


CPUS = len(os.sched_getaffinity(0))
PS = sorted({1, max(CPUS, 2)})
MANY = PS[-1]


# --- 1

def pingpong_jobs(size):
    slow = size.pick(200, 10000, 50000)  # rounds through the kernel
    fast = size.pick(2000, 500000, 3000000)
    cpus = "1 CPU", f"{min(CPUS, 2)} CPUs"
    jobs = [Job(f"threads: {label}", cpus[n - 1], "pingpong", [way, slow, n])
            for way, label in (("pipe", "pipes"), ("cond", "condition variable"),
                               ("futex", "futex"))
            for n in (1, 2)[:CPUS]]
    jobs.append(Job("threads: sched_yield", cpus[0], "pingpong", ["sched_yield", fast // 10, 1]))
    jobs += [Job("green threads as threads: channel", cpus[n - 1], "pingpong", ["chan", slow, n],
                 {"GMP_SCHED": "thread"}, cpus=n) for n in (1, 2)[:CPUS]]
    for way, label in (("chan", "channel"), ("yield", "yield")):
        for n in (1, 2) if way == "chan" else (1,):
            p = f"{n} P" + "s" * (n > 1)
            jobs.append(Job(f"green threads: {label}", p, "pingpong", [way, fast, n]))
            jobs.append(Job(f"Go: {label}", p, "go", ["pingpong", way, fast // 2, n]))
    return jobs


# --- 2

WORKS = {"sum": (20000, 10000000, 10000000), "docs": (40, 1000, 10000),
         "bubble": (500, 5000, 10000)}


def work_jobs(size):
    jobs = []
    for work, counts in WORKS.items():
        n = size.pick(*counts)
        for workers, procs in ((1, 1), (1, MANY), (8, 1), (8, MANY)):
            x = f"{workers} worker{'s' * (workers > 1)}, {procs} P{'s' * (procs > 1)}"
            most = 1 if work == "docs" and workers == 1 else 9
            jobs.append(Job(work, x, "work", [work, n, workers, procs], most=most))
            if work != "bubble":
                jobs.append(Job(f"{work}, Go", x, "go", ["work", work, n, workers, procs],
                                most=most))
    return jobs


# --- 3

def tasks_jobs(size):
    """Job.mib: what the point took at most when it was measured, doubled."""
    jobs, capacity = [], size.pick(100, 50000, 50000)
    for n in size.pick((1000,), (1000000,), (1000000, 10000000)):
        most = 9 if n <= 1000000 else 1
        x = f"{n:,} tasks"
        mib = {1000: 0, 1000000: 800, 10000000: 1300}[n]
        for label, program, way, ants in (
                ("gmp: a green thread each", "tasks", ["green"], False),
                ("gmp: pool", "tasks", ["pool"], False),
                ("Go: a goroutine each", "go", ["tasks", "green"], False),
                ("Go: ants", "go", ["tasks", "pool"], True)):
            jobs.append(Job(label, x, program, way + [n, capacity, MANY], {}, most, mib, ants))
    return jobs


# --- 4

def sieve_jobs(size):
    primes = size.pick(30, 300, 1000)
    jobs = [Job(label, procs, "sieve", [primes, procs], {"GMP_SCHED": word})
            for procs in (1, 2, 4, 8) for label, word in answers.SCHEDS]
    jobs += [Job(answers.THREADS, cpus, "sieve", [primes, cpus], {"GMP_SCHED": "thread"}, most=3,
                 cpus=cpus)
             for cpus in (1, 2, 4, 8) if cpus <= CPUS]
    return jobs + [Job("Go of today", procs, "go", ["sieve", primes, procs])
                   for procs in (1, 2, 4, 8)]


# --- 5

COUNTS = [2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000, 10000,
          20000,
          50000, 100000]


def yields_jobs(size):
    least = size.pick(2000, 300000, 2000000)
    counts = size.pick([2, 5, 100], [n for n in COUNTS if n < 20 or str(n)[0] == "1"], COUNTS)
    jobs = []
    for n in [n for n in counts if n <= 10000 or not size.brief]:
        jobs += [Job(f"{p} P{'s' * (p > 1)}", n, "yields", [n, p, least],
                     most=3 if n >= 10000 else 9) for p in PS]
        jobs.append(Job(f"Go, {MANY} Ps", n, "go", ["yields", n, least, MANY],
                        most=3 if n >= 10000 else 9))
        if n in size.pick((), (10, 100, 1000, 10000), (10, 100, 1000, 10000, 100000)):
            few = max(4, 4000 // n)
            jobs.append(Job("1 P", n, "cachegrind", [n, few, 3 * few], most=1))
    return jobs


# --- 6

def pipeline_jobs(size):
    jobs = []
    for steps in (1, 100, 1000, 10000):
        items = max(20, size.pick(2000, 200000, 1000000) // max(1, steps // 10))
        for way, label in (("alone", "a loop"), ("pool", "pool of 8"), ("fan", "fan-out to 8"),
                           ("locked", "one locked thread")):
            jobs.append(Job(label, steps, "pipeline", [way, items, steps, MANY]))
    return jobs


# --- 8

def beside(size):
    """The situations of preempt.c: (where, how many rounds, arguments, arguments of Go if they are
    others)."""
    ms = size.pick(100, 1000, 5000)
    most = size.pick(100, 1000, 2500)  # redis-benchmark counts 3 s at most
    each = size.pick(10, 100, 100)
    counts = size.pick((4,), (40,), (100, 1000))  # of tasks
    sleepers, crowd = size.pick((4, 4), (20, 20), (100, 100))
    few, many = size.pick((5, 20), (50, 1000), (50, 1000))
    at = [(answers.ticks(1, 1), 9, ["ticker", ms, 1, 1]),
          (answers.ticks(2, 2), 9, ["ticker", ms, 2, 2]),
          (answers.ticks(8, 2), 9, ["ticker", ms, 8, 2]),
          (answers.ticks(16, 2), 9, ["ticker", ms, 16, 2]),
          (answers.ticks(64, 2), 9, ["ticker", ms, 64, 2]),
          (answers.crowd(crowd, 2), 9, ["crowd", crowd, each, 2])]
    if shutil.which("redis-benchmark"):
        at += [(answers.serves(few, 4, 2), 9, ["serve", most, 4, few, 40 * few, 2]),
               (answers.serves(many, 1, 1), 9, ["serve", most, 1, many, 40 * many, 1]),
               (answers.serves(few, 16, 2), 9, ["serve", most, 16, few, 40 * few, 2])]
    return at + [
        (answers.ALONE, 9, ["speed", *size.pick((3, 10), (7, 50), (15, 100)), 1]),
        *((answers.tasks_at(n, 2), 1, ["tasks", n, each, 2]) for n in counts),
        (answers.sleeps(sleepers, 2), 9, ["sleep", sleepers, 100, 2], ["raw", sleepers, 100, 2]),
        (answers.announced(sleepers, 2), 9, ["blocking", sleepers, 100, 2],
         ["sleep", sleepers, 100, 2])]


def sleeper_jobs(size):
    """A sleep of 1 ms beside green threads, goroutines and OS threads that compute. 1,000 of them
    need 5 s for a time slice each."""
    points = [(1, 2), (4, 2), (16, 1), (16, 2), (64, 2), (1000, 2)]
    jobs = []
    for n, procs in [(16, 2)] if size.brief else points:
        x, most = answers.sleeper(n, procs), 9 if n < 1000 else 3
        ms = size.pick(100, 1000, 10000 if n == 1000 else 5000)
        for series, program, *way in ((answers.GMP, "preempt", "sleeper"),
                                      (answers.GO, "go", "preempt", "sleeper"),
                                      (answers.NATIVE, "preempt", "threads")):
            cpus = procs if series == answers.NATIVE else 2
            jobs.append(Job(series, x, program, [*way, ms, n, procs], most=most, cpus=cpus))
    return jobs


def spin_jobs(size):
    """Either run has as many CPUs as Ps can use."""
    points = [(n, p) for n in (10, 16, 64) for p in (1, 2, 4)]
    jobs = []
    for n, procs in [(16, 2)] if size.brief else [(4, 2)] if size.level == 0 else points:
        x, cpus = answers.spins(n, procs), min(procs, 2)
        jobs += [Job(answers.GMP, x, "gmp-run", [n], {"GMP_PROCS": str(procs)}, cpus=cpus),
                 Job(answers.NATIVE, x, "spin", [n], cpus=cpus)]
    return jobs


def preempt_jobs(size):
    jobs = sleeper_jobs(size) + spin_jobs(size)
    for x, most, arguments, *others in beside(size):
        jobs.append(Job(answers.GMP, x, "preempt", arguments, most=most, cpus=2))
        if not size.brief:
            jobs.append(Job(answers.OFF, x, "preempt", arguments, {"GMP_PREEMPT": "off"},
                            most=1 if most < 9 else most, cpus=2))
        jobs.append(Job(answers.GO, x, "go", ["preempt", *(others[0] if others else arguments)],
                        most=most, cpus=2))
    return jobs


ALL = [
    Experiment(
        1, "pingpong", "Threads against green threads",
        "a switch between threads goes through the kernel and costs microseconds; one between "
        "green "
        "threads is a jump and costs a few dozen nanoseconds.",
        "Two pass a number back and forth, and each adds one (`pingpong.c`). A message is half a "
        "round trip. "
        "`yield` and `sched_yield` pass nothing: two that let each other run.",
        [("message", "a message", "ns"), ("cpu", "CPU time", "ns")], pingpong_jobs,
        answers.pingpong,
        "two on two CPUs sleep and wake at every message here; threads that have more to do than "
        "to "
        "answer do not. On a virtual machine a wakeup across CPUs costs far more than on metal.",
        x_label="on", series_label="by"),
    Experiment(
        2, "work", "Concurrency or parallelism",
        "work that computes gains from processors only; work that waits gains from green threads, "
        "on one "
        "processor too; work whose parts must be put together by as much work again gains from "
        "neither.",
        "`sum`: numbers are added up, one at a time in both languages (the C program is compiled "
        "without "
        "vectorisation, which Go's compiler does not have). `docs`: documents are fetched, a "
        "millisecond of waiting each, and "
        "searched. `bubble`: numbers are sorted in parts by bubble sort, and then bubble sort runs "
        "over "
        "the whole (`work.c`).",
        [("time", "time", "ms"), ("cpu", "CPU time", "ms"), ("count", "of how many", "")],
        work_jobs, answers.work,
        "the sum is so short that starting eight green threads shows, and memory's bandwidth "
        "bounds it; "
        "a sleep stands for the disk or the network, which have limits of their own.",
        x_label="with", series_label="work"),
    Experiment(
        3, "tasks", "The worker pool",
        "with a million tasks and more, a bounded pool is faster than a goroutine each, and takes "
        "a "
        "fraction of the memory.",
        "Tasks that sleep 10 ms, a green thread each, or on a pool of 50,000; beside Go with and "
        "without "
        "ants (`tasks.c`).",
        [("time", "time", "ms"), ("submit", "submitted", "a second"),
         ("alive", "most under way", "tasks"),
         ("peak", "memory", "MiB")], tasks_jobs, answers.tasks,
        "a task that waits 10 ms leaves no work to do in parallel but the starting of tasks; where "
        "the "
        "submitter has a P for itself, more are alive at a time.",
        x_label="how many", series_label="how"),
    Experiment(
        4, "sieve", "Three generations of the scheduler",
        "with one locked queue for all (Go 1.0) a second processor makes a program of many small "
        "waits "
        "slower; queues of their own and stealing (Go 1.1) mend that; a runnext (Go 1.5) makes "
        "hand-overs "
        "cheap; and a thread for each is slower than any of them.",
        "The prime sieve, a chain of green threads behind unbuffered channels, by `GMP_SCHED` "
        "(`sieve.c`): the same program and library, with another choice of queues. CPU time is "
        "that of "
        "all threads.",
        [("message", "a message", "ns"), ("cpu", "CPU time of a message", "ns")],
        sieve_jobs, answers.sieve,
        "with more Ps than CPUs the kernel time-slices them, which no scheduler here was made for. "
        "The generations are those of the queues only: all have today's timers, poller and "
        "spinning.",
        x_label="Ps", matrix=True, lines=True),
    Experiment(
        5, "yields", "Is there an inflection point at 2.5 green threads per P?",
        "from about 2.5 goroutines per processor on, the cost of switching grows exponentially, so "
        "a "
        "program should not have more.",
        "n green threads yield 100 times each, again and again (`yields.c`). The time is that of "
        "all "
        "yields by their number, starting and ending included.",
        [("yield", "a yield", "ns"), ("cpu", "CPU time of a yield", "ns"),
         ("away p50", "from a yield until it runs again, median", "ns"),
         ("away p99", "the same, 99th percentile", "ns"),
         ("faults", "page faults of a green thread, the first time", ""),
         ("later faults", "the same, later", ""), ("misses", "cache misses of a yield", ""),
         ("misses 1", "lines of a yield that the first cache does not hold, simulated", ""),
         ("misses 2", "lines of a yield that the second does not hold either", "")],
        yields_jobs, answers.yields,
        "a queue that all walk through in order is kind to prefetching; real programs touch more "
        "memory "
        "between two switches than these do, and meet the end of their caches sooner.",
        x_label="green threads", matrix=True, lines=True),
    Experiment(
        6, "pipeline", "Worker pool, fan-out, or a locked thread",
        "a pool, a fan of green threads between two channels, and a thread of its own do the same "
        "work; channels cost a hand-over each way, and one thread bounds the rate.",
        "Items from one source, some steps of a hash on each, and the results are added up "
        "(`pipeline.c`).",
        [("item", "an item", "ns"), ("cpu", "CPU time of an item", "ns")],
        pipeline_jobs, answers.pipeline,
        "all items are alike and independent. Where one takes long, the pool and the fan go round "
        "it and "
        "a locked thread does not.",
        x_label="steps an item", matrix=True, lines=True),
    Experiment(
        7, "kv", "A Redis clone in three architectures",
        "a server of green threads keeps up with one written around an event loop.",
        "`examples/kvserver` with `--arch` `conn` (a green thread for each connection, tables with "
        "locks), `owner` (one green thread owns the data) and `reactor` (loops around the poller), "
        "and "
        "redis-server, each alone on one CPU, under redis-benchmark with 50 connections on "
        "another; "
        "`set/16` is SET with 16 requests pipelined. The rows come from `bench/net/run`.",
        [("rate", "requests", "a second"), ("cpu", "the server's CPU time of a request", "ns"),
         ("p50", "latency, median", "us"), ("p99", "latency, 99th percentile", "us")],
        lambda size: [], answers.kv,
        "on few CPUs the client is often what is measured: compare the server's CPU time as well. "
        "Redis "
        "does more than kvserver (expiry, eviction, modules), though not in these commands.",
        x_label="test/pipelined", matrix=True, log=False, servers=True),
    Experiment(
        8, "preempt", "One computes beside a thousand that serve",
        "green threads that compute, or sleep in the kernel, and never yield delay the others by a "
        "time slice at most, no longer than in Go, and lose no speed by it.",
        "Green threads compute without a checkpoint (`preempt.c`) beside a tick each millisecond, "
        "and beside a server of this process under redis-benchmark; a wait is the gap between two "
        "ticks, or the latency of a GET. Before that the time of a sleep of 1 ms, beside the same "
        "with OS threads; and a barrier at which pthreads spin until all have arrived (`spin.c`), "
        "natively and under gmp-run. Then the speed of a green thread that computes alone, "
        "beside an OS thread; many tasks that only compute; and many that call usleep, "
        "unannounced and in `gmp_blocking`. All on two CPUs, with preemption, with "
        "`GMP_PREEMPT=off`, and in Go, where a raw system call is what the scheduler does not "
        "see.",
        [("p99", "wait, 99th percentile", "ms"), ("p50", "median", "ms"), ("max", "most", "ms"),
         ("rate", "requests", "a second"),
         ("least", "CPU of a computing thread, least", "%"), ("most", "most", "%"),
         ("total", "time", "ms"), ("of cpu", "time of the CPU time by Ps", ""),
         ("gap", "longest gap of a task", "ms"),
         ("threads", "most OS threads in state R", ""),
         ("below", "samples with fewer of them than Ps", "%"),
         ("speed", "speed beside an OS thread", "%"),
         ("speed cpu", "the same by CPU time", "%"),
         ("loop", "CPU time of an iteration", "ns")],
        preempt_jobs, answers.preempt,
        "redis-benchmark shares the two CPUs with the server and the computing threads, and a "
        "closed loop of requests has more of the short waits than of the long ones: compare the "
        "requests a second as well. What the kernel's scheduler does with the OS threads is in "
        "all figures.",
        x_label="situation", series_label="by"),
]
