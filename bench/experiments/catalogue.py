# SPDX-License-Identifier: MIT
"""
Which experiments are there: what does each claim, which points does it measure, and what do the
figures say to it?  The answers are computed: each looks at its figures, and says what they say.
"""

import os
from dataclasses import dataclass, field
from math import log10
from statistics import median


@dataclass
class Size:
    level: int           # 0 smoke, 1 quick, 2 full
    brief: bool = False  # without the points that take longest

    def pick(self, smoke, quick, full):
        return (smoke, quick, full)[self.level]


@dataclass
class Job:
    """A point: exp-PROGRAM ARGUMENTS, or with program "go" exp-go ARGUMENTS."""
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
    lines: bool = False     # the plot; else bars
    log: bool = True
    servers: bool = False


CPUS = len(os.sched_getaffinity(0))
PS = sorted({1, max(CPUS, 2)})
MANY = PS[-1]


def over(a, b):
    """How many times b fits into a, in words."""
    if not a or not b:
        return "(not measured)"
    r = a / b
    return f"{r:,.0f} times" if r >= 10 else f"{r:.1f} times" if r >= 1.95 else f"{r:.2f} times"


def ns(v):
    if v is None:
        return "(not measured)"
    return f"{v / 1e6:,.1f} ms" if v >= 1e6 else f"{v / 1e3:,.1f} us" if v >= 1e3 else f"{v:,.0f} ns"


def ms(v):
    return ns(v and v * 1e6)


# --- 1

def pingpong_jobs(size):
    slow = size.pick(200, 10000, 50000)  # rounds through the kernel
    fast = size.pick(2000, 500000, 3000000)
    cpus = "1 CPU", f"{min(CPUS, 2)} CPUs"
    jobs = [Job(f"threads: {label}", cpus[n - 1], "pingpong", [way, slow, n])
            for way, label in (("pipe", "pipes"), ("cond", "condition variable"), ("futex", "futex"))
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


def pingpong_answer(r):
    def best(kind, x=""):
        found = [v for s, at in r.points() if s.startswith(kind) and x in at
                 and (v := r.get(s, at, "message"))]
        return min(found) if found else None
    chan, chan2 = (r.get("green threads: channel", p, "message") for p in ("1 P", "2 Ps"))
    raw = r.get("green threads: yield", "1 P", "message")
    threads = min((v for s, x in r.points() if s.startswith("threads") and "yield" not in s
                   and (v := r.get(s, x, "message"))), default=None)
    sched_yield = r.get("threads: sched_yield", "1 CPU", "message")
    return (
        f"A message between green threads takes {ns(chan)}, of which the switch is {ns(raw)} at most; "
        f"between threads it takes {ns(threads)} by the best of the three ways, "
        f"{over(threads, chan)} as long. A bare switch differs as much: {ns(sched_yield)} through "
        f"the kernel's scheduler, {over(sched_yield, raw)} a yield. With a second P the pair of "
        f"green threads takes {ns(chan2)} a message, since it stays together on one of them; "
        f"two threads that are put on two CPUs each sleep and are woken at every message. "
        f"Go's goroutines take {ns(best('Go: channel'))} for the same.")


# --- 2

WORKS = {"sum": (20000, 10000000, 10000000), "docs": (40, 1000, 10000), "bubble": (500, 5000, 10000)}


def work_jobs(size):
    jobs = []
    for work, counts in WORKS.items():
        n = size.pick(*counts)
        for workers, procs in ((1, 1), (1, MANY), (8, 1), (8, MANY)):
            x = f"{workers} worker{'s' * (workers > 1)}, {procs} P{'s' * (procs > 1)}"
            most = 1 if work == "docs" and workers == 1 else 9
            jobs.append(Job(work, x, "work", [work, n, workers, procs], most=most))
            if work != "bubble":
                jobs.append(Job(f"{work}, Go", x, "go", ["work", work, n, workers, procs], most=most))
    return jobs


def work_answer(r):
    def gain(work):
        one, more, all_ = (r.get(work, x, "time") for x in
                           ("1 worker, 1 P", "8 workers, 1 P", f"8 workers, {MANY} Ps"))
        return over(one, more), over(one, all_)
    (s1, sn), (d1, dn) = gain("sum"), gain("docs")
    one, more, all_ = (r.get("bubble", x, "cpu") for x in
                       ("1 worker, 1 P", "8 workers, 1 P", f"8 workers, {MANY} Ps"))
    t1, tn = r.get("bubble", "1 worker, 1 P", "time"), r.get("bubble", f"8 workers, {MANY} Ps", "time")
    return (
        f"With 8 workers on one P the sum is {s1} as fast as with one, the documents {d1}: computing "
        f"gains nothing from green threads, waiting nearly as much as there are. With {MANY} Ps the sum "
        f"is {sn} as fast, the documents {dn}: they gain from the workers, and hardly from Ps. The "
        f"bubble sort takes {ms(t1)} whole, and {ms(tn)} in 8 parts on {MANY} Ps; its CPU time is "
        f"{ms(one)}, {ms(more)} and {ms(all_)} in the three columns, for the last pass over the whole has "
        f"to do nearly all of the work again. A better algorithm for putting the parts together would "
        f"be worth more than any P.")


# --- 3

def tasks_jobs(size):
    jobs, capacity = [], size.pick(100, 50000, 50000)
    for n in size.pick((1000,), (1000000,), (1000000, 10000000)):
        most, mib = (9, 0) if n <= 1000000 else (1, 8000)
        x = f"{n:,} tasks"
        small = mib or n // 200
        jobs += [
            Job("gmp: a green thread each", x, "tasks", ["green", n, capacity, MANY], {}, most,
                mib or n // 200),
            Job("gmp: pool", x, "tasks", ["pool", n, capacity, MANY], {}, most, 500 if n > 1000 else 0),
            Job("Go: a goroutine each", x, "go", ["tasks", "green", n, capacity, MANY], {}, most,
                2 * small if n <= 1000000 else 30000),
            Job("Go: ants", x, "go", ["tasks", "pool", n, capacity, MANY], {}, most,
                500 if n > 1000 else 0, ants=True)]
    return jobs


def tasks_answer(r):
    words = []
    for x in r.xs():
        green, pool, go, ants = (
            {f: r.get(s, x, f) for f in ("time", "peak", "submit")} for s in
            ("gmp: a green thread each", "gmp: pool", "Go: a goroutine each", "Go: ants"))
        text = f"{x.capitalize()}: "
        if green["time"] and pool["time"]:
            faster = "faster" if pool["time"] < green["time"] else "slower"
            text += (f"the pool takes {ms(pool['time'])} and {pool['peak']:,.0f} MiB, a green thread each "
                     f"{ms(green['time'])} and {green['peak']:,.0f} MiB; the pool is {faster}, and "
                     f"bounds the memory")
        if pool["time"] and ants["time"]:
            text += (f". Go takes {ms(ants['time'])} with ants, {over(ants['time'], pool['time'])} as long "
                     f"as gmp's pool, and accepts {ants['submit'] / 1e6:.2f} million tasks a second "
                     f"(gmp: {pool['submit'] / 1e6:.2f})")
        if green["time"] and go["time"]:
            text += (f"; a goroutine each {ms(go['time'])} and {go['peak']:,.0f} MiB, "
                     f"{over(go['time'], green['time'])} as long as a green thread each")
        words.append(text + ".")
    return " ".join(words) + (
        " What a pool buys is the bound: on memory, and on how much is begun at a time. A million stacks "
        "at once cost page faults, which the pool saves by using warm ones again.")


# --- 4

SCHEDS = [("one locked queue (Go 1.0)", "global"), ("a queue for each P (Go 1.1)", "local"),
          ("and runnext (Go 1.5)", "runnext")]
THREADS = "a thread each, on so many CPUs"


def sieve_jobs(size):
    primes = size.pick(30, 300, 1000)
    jobs = [Job(label, procs, "sieve", [primes, procs], {"GMP_SCHED": word})
            for procs in (1, 2, 4, 8) for label, word in SCHEDS]
    jobs += [Job(THREADS, cpus, "sieve", [primes, cpus], {"GMP_SCHED": "thread"}, most=3, cpus=cpus)
             for cpus in (1, 2, 4, 8) if cpus <= CPUS]
    return jobs + [Job("Go of today", procs, "go", ["sieve", primes, procs]) for procs in (1, 2, 4, 8)]


def sieve_answer(r):
    at = {word: [r.get(label, p, "message") for p in (1, 2)] for label, word in SCHEDS}
    parts = [f"`{word}` takes {ns(one)} a message with one P and {ns(two)} with two"
             for word, (one, two) in at.items()]
    one, two = at["global"]
    text = "; ".join(parts) + ". "
    if one and two:
        text += ("The locked queue gets slower with a second P, as claimed. " if two > 1.05 * one else
                 "The locked queue does not get slower with a second P here, which the claim says it does. ")
    low, high = at["runnext"][1], at["local"][1]
    if low and high:
        text += (f"Without runnext two Ps take {over(high, low)} as long as with it. ")
    thread = r.get(THREADS, min(CPUS, 2), "message")
    if thread and low:
        text += f"A thread for each takes {ns(thread)}, {over(thread, low)} as long. "
    go = r.get("Go of today", 2, "message")
    if go and low:
        text += f"Go of today takes {ns(go)} with two, {over(go, low)} as long as gmp."
    return text


# --- 5

COUNTS = [2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000,
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


def steepest(curve):
    """The greatest power of n by which the curve grows, between points that are not next-door."""
    return max(log10(b / a) / log10(m / n) for n, a in curve for m, b in curve if m >= 4 * n)


# By CPU time: what else runs on the machine is in the wall time, and in neither claim.
def yields_answer(r):
    words, steps, powers, last = [], [], [], r.xs()[-1]
    for p in PS:
        series = f"{p} P{'s' * (p > 1)}"
        curve = [(n, v) for n in r.xs() if (v := r.get(series, n, "cpu"))]
        below = [v for n, v in curve if n < 2.5 * p]
        above = [v for n, v in curve if 2.5 * p <= n <= 10 * p]
        if not below or not above:
            continue
        steps.append(median(above) / median(below))
        powers.append(steepest(curve))
        words.append(f"with {series} a yield takes {ns(median(below))} of CPU time below 2.5 green threads "
                     f"a P, {ns(median(above))} between 2.5 and 10, and {ns(curve[-1][1])} at {last:,}")
    if not steps:
        return "Too few points were measured."
    exponential = max(powers) > 1.5 or max(steps) > 2
    text = "**Something happens here: look at the table.** " if exponential else (
        "**There is no exponential growth, at 2.5 green threads a P or anywhere else, and no inflection "
        "point at 2.5.** ")
    text += words[0][0].upper() + words[0][1:] + "; " + "; ".join(words[1:]) + ". "
    text += (f"The step at 2.5 is by a factor of {max(steps):.2f} at most, and between points at least four "
             f"times apart the cost grows by the power {max(powers):.1f} of n at most: an exponential curve "
             f"outgrows every power. ")
    series = f"{MANY} Ps"
    faults, later, away, misses = (r.get(series, last, f) for f in
                                   ("faults", "later faults", "away p50", "misses"))
    text += ("What growth there is comes from memory, when descriptors and stacks no longer fit the caches: ")
    first, second = ([r.get("1 P", n, f"misses {c}") for n in r.xs()] for c in (1, 2))
    first, second = ([v for v in vs if v is not None] for vs in (first, second))
    if misses:
        text += f"cache misses go up to {misses:.2f} a yield"
    elif first and second:
        text += (f"by cachegrind's simulation of this machine's first two caches, {first[0]:.1f} lines of a yield are "
                 f"not in the first one with {r.xs()[0]:,} to 10 green threads and {max(first):.1f} with more, and "
                 f"{max(second):.1f} not in the second one either")
    else:
        text += "it begins where they are larger than those, though this machine lets nobody count misses"
    text += (f". Page faults are no cause: {faults:.1f} for each green thread the first time, {later:.2g} "
             f"later. From a yield until one runs again it takes as long as the others' yields "
             f"({ns(away)} at {last:,}): that is linear in n, as a fair queue has to be, and what one sees "
             f"who measures single goroutines.")
    return text


# --- 6

def pipeline_jobs(size):
    jobs = []
    for steps in (1, 100, 1000, 10000):
        items = max(20, size.pick(2000, 200000, 1000000) // max(1, steps // 10))
        for way, label in (("alone", "a loop"), ("pool", "pool of 8"), ("fan", "fan-out to 8"),
                           ("locked", "one locked thread")):
            jobs.append(Job(label, steps, "pipeline", [way, items, steps, MANY]))
    return jobs


def pipeline_answer(r):
    xs = r.xs()
    least, most = xs[0], xs[-1]
    ways = [s for s in r.series() if s != "a loop"]

    def best(x):
        found = [(v, s) for s in ways if (v := r.get(s, x, "item"))]
        return min(found) if found else (None, "(not measured)")
    loop = r.get("a loop", least, "item")
    small = ", ".join(f"{s} {ns(r.get(s, least, 'item'))}" for s in ways)
    big = ", ".join(f"{s} {over(r.get('a loop', most, 'item'), r.get(s, most, 'item'))}" for s in ways)
    return (
        f"An item of {least} step, {ns(loop)} of computing, costs: {small}. So much is the hand-over, and "
        f"nothing is gained by any of them; the {best(least)[1]} is the cheapest. At {most:,} steps an "
        f"item, {ns(r.get('a loop', most, 'item'))}, they are as fast as the loop: {big}. The pool and the "
        f"fan use all {MANY} Ps; a locked thread never more than one, and pays two switches of threads "
        f"whenever it waits, which the buffers of {128} make seldom. It is for state that cannot leave its "
        f"thread, not for speed.")


# --- 7

def kv_answer(r):
    words = []
    for x in r.xs():
        redis = r.get("redis", x, "rate")
        shares = [(s, r.get(s, x, "rate")) for s in ("conn", "owner", "reactor")]
        if redis:
            words.append(f"{x}: " + ", ".join(f"{s} {v / redis:.2f}" for s, v in shares if v))
    if not words:
        return "redis-server or redis-benchmark is not there, so nothing was measured."
    return (
        "As shares of redis-server's requests a second (test/pipelined): " + "; ".join(words) + ". "
        "A green thread for each connection (conn) is plain sequential code, and keeps up with an event "
        "loop because a read that would wait is a switch of a few dozen nanoseconds; handing every "
        "command to an owner of the data (owner) pays for a hand-over each way, which pipelining shares "
        "among many; a loop around the poller (reactor) saves the switches, and pays by its shape.")


ALL = [
    Experiment(
        1, "pingpong", "Threads against green threads",
        "a switch between threads goes through the kernel and costs microseconds; one between green "
        "threads is a jump and costs a few dozen nanoseconds.",
        "Two pass a number to and fro, and each adds one (`pingpong.c`). A message is half a round trip. "
        "`yield` and `sched_yield` pass nothing: two that let each other run.",
        [("message", "a message", "ns"), ("cpu", "CPU time", "ns")], pingpong_jobs, pingpong_answer,
        "two on two CPUs sleep and wake at every message here; threads that have more to do than to "
        "answer do not. On a virtual machine a wake-up across CPUs costs far more than on metal.",
        x_label="on", series_label="who"),
    Experiment(
        2, "work", "Concurrency or parallelism",
        "work that computes gains from processors only; work that waits gains from green threads, on one "
        "processor too; work whose parts must be put together by as much work again gains from neither.",
        "`sum`: numbers are added up. `docs`: documents are fetched, a millisecond of waiting each, and "
        "searched. `bubble`: numbers are sorted in parts by bubble sort, and then bubble sort runs over "
        "the whole (`work.c`).",
        [("time", "time", "ms"), ("cpu", "CPU time", "ms"), ("count", "of how many", "")],
        work_jobs, work_answer,
        "the sum is so short that starting eight green threads shows, and memory's bandwidth bounds it; "
        "a sleep stands for the disk or the network, which have limits of their own.",
        x_label="with", series_label="work"),
    Experiment(
        3, "tasks", "The worker pool",
        "with a million tasks and more, a bounded pool is faster than a goroutine each, and takes a "
        "fraction of the memory.",
        "Tasks that sleep 10 ms, a green thread each, or on a pool of 50,000; beside Go with and without "
        "ants (`tasks.c`).",
        [("time", "time", "ms"), ("submit", "submitted", "a second"), ("alive", "most under way", "tasks"),
         ("peak", "memory", "MiB")], tasks_jobs, tasks_answer,
        "a task that waits 10 ms leaves no work to do in parallel but the starting of tasks; where the "
        "submitter has a P for itself, more are alive at a time.",
        x_label="how many", series_label="how"),
    Experiment(
        4, "sieve", "Three generations of the scheduler",
        "with one locked queue for all (Go 1.0) a second processor makes a program of many small waits "
        "slower; queues of their own and stealing (Go 1.1) mend that; a runnext (Go 1.5) makes hand-overs "
        "cheap; and a thread for each is slower than any of them.",
        "The prime sieve, a chain of green threads behind unbuffered channels, by `GMP_SCHED` "
        "(`sieve.c`): the same program and library, with another choice of queues. CPU time is that of "
        "all threads.",
        [("message", "a message", "ns"), ("cpu", "CPU time of a message", "ns")],
        sieve_jobs, sieve_answer,
        "with more Ps than CPUs the kernel takes turns among them, which no scheduler here was made for. "
        "The generations are those of the queues only: all have today's timers, poller and spinning.",
        x_label="Ps", matrix=True, lines=True),
    Experiment(
        5, "yields", "Is there an inflection point at 2.5 green threads per P?",
        "from about 2.5 goroutines per processor on, the cost of switching grows exponentially, so a "
        "program should not have more.",
        "n green threads yield 100 times each, again and again (`yields.c`). The time is that of all "
        "yields by their number, starting and ending included.",
        [("yield", "a yield", "ns"), ("cpu", "CPU time of a yield", "ns"),
         ("away p50", "from a yield until it runs again, median", "ns"),
         ("away p99", "the same, 99th percentile", "ns"),
         ("faults", "page faults of a green thread, the first time", ""),
         ("later faults", "the same, later", ""), ("misses", "cache misses of a yield", ""),
         ("misses 1", "lines of a yield that the first cache does not hold, simulated", ""),
         ("misses 2", "lines of a yield that the second does not hold either", "")],
        yields_jobs, yields_answer,
        "a queue that all walk through in order is kind to prefetching; real programs touch more memory "
        "between two switches than these do, and meet the end of their caches sooner.",
        x_label="green threads", matrix=True, lines=True),
    Experiment(
        6, "pipeline", "Worker pool, fan-out, or a locked thread",
        "a pool, a fan of green threads between two channels, and a thread of its own do the same "
        "work; channels cost a hand-over each way, and one thread bounds the rate.",
        "Items from one source, some steps of a hash on each, and the results are added up "
        "(`pipeline.c`).",
        [("item", "an item", "ns"), ("cpu", "CPU time of an item", "ns")],
        pipeline_jobs, pipeline_answer,
        "all items are alike and independent. Where one takes long, the pool and the fan go round it and "
        "a locked thread does not.",
        x_label="steps an item", matrix=True, lines=True),
    Experiment(
        7, "kv", "A Redis clone in three architectures",
        "a server of green threads keeps up with one written around an event loop.",
        "`examples/kvserver` with `--arch` `conn` (a green thread for each connection, tables with "
        "locks), `owner` (one green thread owns the data) and `reactor` (loops around the poller), and "
        "redis-server, each alone on one CPU, under redis-benchmark with 50 connections on another; "
        "`set/16` is SET with 16 requests pipelined. The rows come from `bench/net/run`.",
        [("rate", "requests", "a second"), ("cpu", "the server's CPU time of a request", "ns"),
         ("p50", "latency, median", "us"), ("p99", "latency, 99th percentile", "us")],
        lambda size: [], kv_answer,
        "on few CPUs the client is often what is measured: compare the server's CPU time as well. Redis "
        "does more than kvserver (expiry, eviction, modules), though not in these commands.",
        x_label="test/pipelined", matrix=True, log=False, servers=True),
]
