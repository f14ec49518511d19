# SPDX-License-Identifier: MIT
"""
What the figures of an experiment show, in words. Each verdict is chosen by a comparison of medians
of the run: a sentence whose condition does not hold is replaced by its opposite or left out.
test_answers.py runs every answer on figures that support its claim and on figures that refute it.
"""

from math import log10
from statistics import median, quantiles

SAME = 1.1  # medians that differ by less are called equal: runs of one program differ by as much


def over(a, b):
    """How many times b fits into a, in words."""
    if not a or not b:
        return "(not measured)"
    r = a / b
    return f"{r:,.0f} times" if r >= 10 else f"{r:.1f} times" if r >= 1.95 else f"{r:.2f} times"


def ns(v):
    if v is None:
        return "(not measured)"
    if v >= 1e6:
        return f"{v / 1e6:,.1f} ms"
    return f"{v / 1e3:,.1f} us" if v >= 1e3 else f"{v:,.0f} ns"


def ms(v):
    return ns(v and v * 1e6)


def compared(a, b, less, more, same="the same"):
    """Two medians in one of three words."""
    return same if a < SAME * b and b < SAME * a else less if a < b else more


def listed(words):
    words = [str(w) for w in words]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def sentence(text):
    return text[:1].upper() + text[1:]


def claim(holds, what):
    """holds: one truth value for each point that was compared."""
    if not holds:
        return f"Too few points were measured to say whether {what}. "
    if all(holds):
        return f"The claim that {what} holds at all points compared ({len(holds)}). "
    if not any(holds):
        return f"**The claim that {what} does not hold** at any point compared ({len(holds)}). "
    return f"**The claim that {what} holds at {sum(holds)} of {len(holds)} points.** "


# --- 1

def pingpong(r):
    def best(kind, x=""):
        found = [v for s, at in r.points() if s.startswith(kind) and "yield" not in s and x in at
                 and (v := r.get(s, at, "message"))]
        return min(found) if found else None
    chan, chan2 = (r.get("green threads: channel", p, "message") for p in ("1 P", "2 Ps"))
    raw = r.get("green threads: yield", "1 P", "message")
    kernel = r.get("threads: sched_yield", "1 CPU", "message")
    threads, threads2, go = best("threads", "1 CPU"), best("threads", "2 CPUs"), best("Go: channel")
    text = ""
    if threads and chan:
        text += claim([threads > 1000, chan < 100],
                      "a message between OS threads costs microseconds and one between green "
                      "threads a few "
                      "dozen nanoseconds")
        text += (f"A message between green threads takes {ns(chan)}, between OS threads on one CPU "
                 f"{ns(threads)} "
                 f"by the fastest of the three ways, {over(threads, chan)} as long. ")
    if kernel and raw:
        text += (f"A switch alone takes {ns(raw)} by `gmp_yield` and {ns(kernel)} by "
                 f"`sched_yield`, "
                 f"{over(kernel, raw)} as long. ")
    if chan and chan2:
        word = compared(chan2, chan, "less than", "more than", "as much as")
        text += f"With two Ps a message of the green threads takes {ns(chan2)}, {word} with one. "
    if threads and threads2:
        word = compared(threads2, threads, "less than", "more than", "as much as")
        text += f"With two CPUs the OS threads take {ns(threads2)}, {word} on one CPU. "
    if go and chan:
        text += f"Goroutines take {ns(go)}, {over(go, chan)} as long as green threads."
    return text.strip() or "Too few points were measured."


# --- 2

def work(r):
    many = max((x.split(", ")[1] for x in r.xs()), key=lambda p: int(p.split()[0]))

    def gain(name, workers, procs):
        one, other = (r.get(name, x, "time") for x in ("1 worker, 1 P", f"{workers}, {procs}"))
        return one / other if one and other else None
    words = []
    sum1, summ = gain("sum", "8 workers", "1 P"), gain("sum", "8 workers", many)
    docs1, docsm = gain("docs", "8 workers", "1 P"), gain("docs", "8 workers", many)
    if sum1 and summ:
        words.append(f"The sum is {sum1:.2f} times as fast with 8 workers on one P as with one "
                     f"worker, and "
                     f"{summ:.2f} times on {many}. " +
                     claim([sum1 < SAME, summ > SAME], "work that computes gains from processors "
                                                       "only"))
    if docs1 and docsm:
        words.append(f"The documents are {docs1:.1f} times as fast with 8 workers on one P, and "
                     f"{docsm:.1f} times on "
                     f"{many}. " + claim([docs1 > 2], "work that waits gains on one processor too"))
    whole, parts = (r.get("bubble", x, "time") for x in ("1 worker, 1 P", f"8 workers, {many}"))
    cpu, cpus = (r.get("bubble", x, "cpu") for x in ("1 worker, 1 P", f"8 workers, {many}"))
    if whole and parts and cpu and cpus:
        words.append(f"The bubble sort takes {ms(whole)} whole and {ms(parts)} in 8 parts on "
                     f"{many}; its CPU time "
                     f"is {ms(cpu)} and {ms(cpus)}. " +
                     claim([parts > whole / SAME], "work whose parts are put together by as much "
                                                   "work gains from neither"))
    compare = []
    for name in ("sum", "docs"):
        ours, go = (r.get(s, f"8 workers, {many}", "time") for s in (name, f"{name}, Go"))
        if ours and go:
            compare.append(f"{over(go, ours)} as long for `{name}`")
    if compare:
        words.append(f"Go takes {listed(compare)} (8 workers, {many}).")
    return " ".join(w.strip() for w in words) or "Too few points were measured."


# --- 3

TASKS = {"green": "gmp: a green thread each", "pool": "gmp: pool", "go": "Go: a goroutine each",
         "ants": "Go: ants"}


def tasks(r):
    words = []
    for x in r.xs():
        at = {k: {f: r.get(s, x, f) for f in ("time", "peak", "submit")} for k, s in TASKS.items()}
        at = {k: v for k, v in at.items() if v["time"] and v["peak"]}
        text = f"{x}: "
        text += "; ".join(f"{TASKS[k]} {ms(v['time'])} and {v['peak']:,.0f} MiB"
                          for k, v in at.items()) + ". "
        for bounded, bare in (("pool", "green"), ("ants", "go")):
            if bounded in at and bare in at:
                time = compared(at[bounded]["time"], at[bare]["time"], "faster than", "slower than",
                                "as fast as")
                memory = over(at[bounded]["peak"], at[bare]["peak"])
                text += f"{TASKS[bounded]} is {time} {TASKS[bare]} and takes {memory} its memory. "
        for ours, theirs in (("pool", "ants"), ("green", "go")):
            if ours in at and theirs in at:
                text += (f"{TASKS[theirs]} takes {over(at[theirs]['time'], at[ours]['time'])} the "
                         f"time and "
                         f"{over(at[theirs]['peak'], at[ours]['peak'])} the memory of "
                         f"{TASKS[ours]}. ")
        least = min(at, key=lambda k: at[k]["peak"], default=None)
        if least:
            text += f"The least memory is that of {TASKS[least]}."
        holds = [at[a]["time"] * SAME < at[b]["time"] and at[a]["peak"] < at[b]["peak"] / 2
                 for a, b in (("pool", "green"), ("ants", "go")) if a in at and b in at]
        words.append(text.strip() + " " +
                     claim(holds,
                           "a bounded pool is faster and takes a fraction of the memory").strip())
    return " ".join(words)


# --- 4

SCHEDS = [("one locked queue (Go 1.0)", "global"), ("a queue for each P (Go 1.1)", "local"),
          ("and runnext (Go 1.5)", "runnext")]
THREADS = "a thread each, on so many CPUs"


def sieve(r):
    at = {word: {p: v for p in r.xs() if (v := r.get(label, p, "message"))}
          for label, word in SCHEDS}
    text = ""

    def pairs(a, b):
        return [(p, at[a][p], at[b][p]) for p in r.xs() if p in at[a] and p in at[b]]

    def gains(a, b):
        found = pairs(a, b)
        return "; ".join(f"{over(x, y)} as long with {p} P{'s' * (p > 1)}" for p, x, y in found)
    if 1 in at["global"] and 2 in at["global"]:
        one, two = at["global"][1], at["global"][2]
        text += f"One locked queue takes {ns(one)} a message with one P and {ns(two)} with two. "
        text += claim([two > SAME * one], "one locked queue gets slower with a second processor")
    if pairs("global", "local"):
        text += f"Against a queue for each P it takes {gains('global', 'local')}. "
        text += claim([b * SAME < a for p, a, b in pairs("global", "local") if p > 1],
                      "a queue for each P mends that")
    if pairs("local", "runnext"):
        text += f"Without runnext a message takes {gains('local', 'runnext')} as with it. "
        text += claim([b * SAME < a for _, a, b in pairs("local", "runnext")],
                      "runnext makes hand-overs cheaper")
    thread = [(p, v, at["runnext"].get(p)) for p in r.xs() if (v := r.get(THREADS, p, "message"))]
    if thread:
        text += "An OS thread for each takes " + listed(
            f"{ns(v)} on {p} CPU{'s' * (p > 1)}" for p, v, _ in thread) + ". "
        text += claim([all(v > at[w].get(p, 0) for w in at) for p, v, _ in thread],
                      "a thread for each is slower than any of the three")
    go = [(p, v, at["runnext"][p]) for p in r.xs() if (v := r.get("Go of today", p, "message"))
          and p in at["runnext"]]
    if go:
        text += "Go of today takes " + "; ".join(
            f"{over(v, ours)} as long as gmp with {p} P{'s' * (p > 1)}" for p, v, ours in go) + "."
    return text.strip() or "Too few points were measured."


# --- 5

def steepest(curve):
    """The greatest power of n by which the curve grows, over steps of at least four times."""
    return max(log10(b / a) / log10(m / n) for n, a in curve for m, b in curve if m >= 4 * n)


def growth_of_misses(r):
    """The counted or the simulated misses of a yield with few and with many green threads."""
    for series, figure, how in ((s, f, h) for s in r.series()
                                for f, h in (("misses", "counted"), ("misses 1", "simulated"))):
        found = [(n, v) for n in r.xs() if (v := r.get(series, n, figure)) is not None]
        if len(found) > 1:
            return found[0], found[-1], how
    return None


# By CPU time: the wall time holds what else runs on the machine too.
def yields(r):
    words, steps, powers, last = [], [], [], r.xs()[-1]
    ps = sorted(int(s.split()[0]) for s in r.series() if s.endswith((" P", " Ps"))
                and s[0].isdigit())
    for p in ps:
        series = f"{p} P{'s' * (p > 1)}"
        curve = [(n, v) for n in r.xs() if (v := r.get(series, n, "cpu"))]
        below = [v for n, v in curve if n < 2.5 * p]
        above = [v for n, v in curve if 2.5 * p <= n <= 10 * p]
        if not below or not above:
            continue
        steps.append(median(above) / median(below))
        powers.append(steepest(curve))
        words.append(f"with {series} a yield takes {ns(median(below))} of CPU time below 2.5 green "
                     f"threads "
                     f"a P, {ns(median(above))} between 2.5 and 10, and {ns(curve[-1][1])} at "
                     f"{curve[-1][0]:,}")
    if not steps:
        return "Too few points were measured."
    text = claim([step > 2 and power > 1.5 for step, power in zip(steps, powers)],
                 "the cost grows exponentially from 2.5 green threads a P on")
    text += sentence("; ".join(words)) + ". "
    text += (f"The step at 2.5 is by a factor of {max(steps):.2f} at most. Between points at least "
             f"four times apart "
             f"the cost grows by the power {max(powers):.1f} of n at most. ")
    misses = growth_of_misses(r)
    if misses:
        (few, a), (many, b), how = misses
        text += (f"Cache misses of a yield, {how}: {a:.2f} with {few:,} green threads and {b:.2f} "
                 f"with {many:,}. ")
        if b > 1 and b > 2 * a and any(r.get(f"{p} P{'s' * (p > 1)}", many, "cpu") for p in ps):
            text += "Growth of the cost and growth of the misses go together. "
    else:
        text += "Cache misses were not measured. "
    later = [v for p in ps
             if (v := r.get(f"{p} P{'s' * (p > 1)}", last, "later faults")) is not None]
    if later:
        text += f"After the first round a green thread takes {max(later):.2g} page faults at " \
                f"{last:,}: page faults "
        text += "explain none of the growth. " if max(later) < 0.1 else "are part of the cost. "
    away = [(n, v) for n in r.xs() if (v := r.get(f"{ps[0]} P{'s' * (ps[0] > 1)}", n, "away p50"))]
    if len(away) > 1:
        text += (f"From a yield until the same green thread runs again takes {ns(away[0][1])} with "
                 f"{away[0][0]:,} and "
                 f"{ns(away[-1][1])} with {away[-1][0]:,} green threads ({ps[0]} "
                 f"P{'s' * (ps[0] > 1)}).")
    return text.strip()


# --- 6

def pipeline(r):
    xs = r.xs()
    least, most = xs[0], xs[-1]
    ways = [s for s in r.series() if s != "a loop"]
    loop, loop_most = r.get("a loop", least, "item"), r.get("a loop", most, "item")
    small = [(s, v) for s in ways if (v := r.get(s, least, "item"))]
    big = [(s, v) for s in ways if (v := r.get(s, most, "item"))]
    if not (loop and loop_most and small and big):
        return "Too few points were measured."
    text = f"At {least:,} step an item, {ns(loop)} of computing, an item costs " + ", ".join(
        f"{ns(v)} ({s})" for s, v in small) + ". "
    faster = [s for s, v in small if v * SAME < loop]
    text += (f"Faster than the loop there: {listed(faster)}. " if faster else
             f"None of them is faster than the loop there; the difference is the hand-over, least "
             f"for the "
             f"{min(small, key=lambda f: f[1])[0]}. ")
    text += f"At {most:,} steps an item, {ns(loop_most)} of computing, " + ", ".join(
        f"the {s} is {over(loop_most, v)} as fast as the loop" for s, v in big) + ". "
    locked = r.get("one locked thread", most, "item")
    if locked:
        text += claim([locked > loop_most / SAME], "one thread bounds the rate")
    others = [(s, v) for s, v in big if s != "one locked thread"]
    if len(others) > 1:
        fast, slow = min(others, key=lambda f: f[1]), max(others, key=lambda f: f[1])
        word = compared(fast[1], slow[1], "faster than", "slower than", "as fast as")
        text += f"The {fast[0]} is {word} the {slow[0]}."
    return text.strip()


# --- 7

def kv(r):
    words, keeps = [], []
    for x in r.xs():
        redis, loop = r.get("redis", x, "rate"), r.get("reactor", x, "rate")
        shares = [(s, r.get(s, x, "rate")) for s in ("conn", "owner", "reactor")]
        if redis:
            words.append(f"{x}: " + ", ".join(f"{s} {v / redis:.2f}" for s, v in shares if v))
        conn = dict(shares)["conn"]
        if loop and conn:
            keeps.append(conn > loop / SAME)
    text = claim(keeps, "a server of green threads keeps up with one written around an event loop "
                        "(conn, reactor)")
    if words:
        text += "As shares of redis-server's requests a second (test/pipelined): " + \
                "; ".join(words) + ". "
        for figure, name in (("cpu", "CPU time of the server a request"),
                             ("p99", "latency, 99th percentile")):
            best = []
            for x in r.xs():
                found = [(v, s) for s in r.series() if (v := r.get(s, x, figure))]
                if found:
                    best.append(f"{min(found)[1]} ({x})")
            if best:
                text += f"Least {name}: {listed(best)}. "
    else:
        text += "redis-server or redis-benchmark is not installed: no comparison with it."
    return text.strip()


# --- 8

GMP, OFF, GO, NATIVE = "gmp", "gmp, GMP_PREEMPT=off", "Go", "OS threads"
ALONE = "alone, 1 P"
SLICE = 10   # ms
SLICES = 15  # ms: a time slice, and until sysmon has noticed
FEW = 16     # so many or fewer that compute delay others by no more than SLICES
CPUS = 2     # of each point, or fewer


def on(procs):
    return f"{procs} P{'s' * (procs > 1)}"


def ticks(hogs, procs):
    return f"tick, {hogs} compute{'s' * (hogs == 1)}, {on(procs)}"


def serves(connections, hogs, procs):
    return f"{connections:,} connections, {hogs} compute{'s' * (hogs == 1)}, {on(procs)}"


def sleeper(hogs, procs):
    return f"sleep of 1 ms, {hogs:,} compute{'s' * (hogs == 1)}, {on(procs)}"


def spins(n, procs):
    return f"barrier, {n} spin, {on(procs)}"


def count_of(x):
    """The number of computing threads of a situation."""
    words = x.replace(",", "").split()
    return next((int(a) for a, b in zip(words, words[1:])
                 if b in ("compute", "computes", "spin", "tasks")), 0)


def procs_of(x):
    return int(x.split()[-2])


def tasks_at(n, procs):
    return f"{n:,} tasks, {on(procs)}"


def crowd(n, procs):
    return f"tick, {n} tasks, {on(procs)}"


def sleeps(n, procs):
    return f"tick, {n} sleep, {on(procs)}"


def announced(n, procs):
    return f"tick, {n} sleep in gmp_blocking, {on(procs)}"


def ratios(r, x, figure, a, b):
    """The ratios of a to b, round by round."""
    return [u / v for u, v in zip(r.values(a, x, figure), r.values(b, x, figure)) if v]


def spread(values):
    """A median, and with several values the quartiles."""
    if not values:
        return "—"
    middle = f"{median(values):.2g}" if median(values) < 1 else f"{median(values):.2f}"
    if len(values) < 2:
        return middle
    low, _, high = quantiles(values, n=4, method="inclusive")
    return f"{middle} ({low:.2g}–{high:.2g})"


def short(v):
    return f"{v:,.0f}" if v >= 100 else f"{v:.3g}"


FIGURES = {"p99": ("wait, 99th percentile", " ms"), "max": ("longest wait", " ms"),
           "rate": ("requests a second", ""), "least": ("least CPU of a computing thread", " %"),
           "all": ("CPU of all computing threads", " %"), "total": ("time", " ms"),
           "of cpu": ("time of the CPU time by Ps", ""),
           "gap": ("longest gap of a task", " ms"),
           "threads": ("most OS threads in state R", ""),
           "below": ("samples with fewer of them than Ps", " %")}


def within(bounds, unit):
    """bounds: (situation, figure, bound). Returns the truth values of a claim, and a sentence on
    the situations that exceed their bounds."""
    longer = [f"{x} ({short(v)} of {short(bound)}{unit})" for x, v, bound in bounds if v > bound]
    return ([v <= bound for _, v, bound in bounds],
            f"Longer: {listed(longer)}. " if longer else "")


def starvation(r):
    """Sleeps beside threads that compute, and barriers at which threads spin."""
    asleep = [x for x in r.xs() if str(x).startswith("sleep of") and r.get(GMP, x, "p99")]
    text = ""
    if asleep:
        bounds = [(x, r.get(GMP, x, "p99"), SLICES if count_of(x) <= FEW
                   else r.get(GO, x, "p99")) for x in asleep]
        holds, longer = within([b for b in bounds if b[2]], " ms")
        text += claim(holds, f"99 of 100 sleeps of a millisecond take at most {SLICES} ms beside "
                             f"{FEW} that compute or fewer, and no longer than in Go beside more")
        text += longer
        holds, longer = within([(x, r.get(GMP, x, "max"), max(50, r.get(GO, x, "max") or 0))
                                for x in asleep], " ms")
        text += claim(holds, "the longest sleep takes at most 50 ms, or no longer than in Go")
        text += longer
    barriers = [(x, v, r.get(NATIVE, x, "total")) for x in r.xs()
                if str(x).startswith("barrier") and (v := r.get(GMP, x, "total"))]
    if barriers:
        bounds = [(x, v, max(2 * count_of(x) * SLICE / min(procs_of(x), CPUS) + 50,
                             3 * (native or 0))) for x, v, native in barriers]
        holds, longer = within(bounds, " ms")
        text += claim(holds, "a barrier of pthreads that spin takes at most two time slices of "
                             "each and 50 ms under gmp-run, or three times the time of OS threads")
        text += longer
    return text


def finite_tasks(r):
    """How fairly tasks that compute share the Ps, and what that costs."""
    at = [x for x in r.xs() if r.get(GMP, x, "gap") is not None]
    if not at:
        return ""
    holds, longer = within([(x, used, 1.05) for x in at if (used := r.get(GMP, x, "of cpu"))], "")
    text = claim(holds, "the tasks take at most 1.05 of their CPU time by the number of Ps")
    text += longer
    holds, longer = within([(x, r.get(GMP, x, "gap"), 1.5 * count_of(x) * SLICE / procs_of(x))
                            for x in at], " ms")
    text += claim(holds, "no task waits for more than 1.5 time slices of each task by the number "
                         "of Ps")
    return text + longer


def preempt(r):
    waits = [x for x in r.xs() if r.get(GMP, x, "p99")]
    both = [(x, r.get(GMP, x, "p99"), go) for x in waits if (go := r.get(GO, x, "p99"))]
    text = ""
    if both:
        text += claim([ours <= SAME * go for _, ours, go in both],
                      "99 of 100 waits beside green threads that compute or sleep are no longer "
                      "than in Go")
        longer = [f"{x} ({over(ours, go)} as long)" for x, ours, go in both if ours > SAME * go]
        text += f"Longer than in Go: {listed(longer)}. " if longer else ""
    text += starvation(r)
    ticking = [x for x in waits if x.startswith("tick") and count_of(x) <= FEW]
    if ticking:
        late = [x for x in ticking if r.get(GMP, x, "p99") > SLICES]
        text += claim([x not in late for x in ticking],
                      f"99 of 100 ticks of a millisecond are received within {SLICES} ms")
        text += f"Longer: {listed(late)}. " if late else ""
    speed, cpu = r.get(GMP, ALONE, "speed"), r.get(GMP, ALONE, "speed cpu")
    if speed and cpu:
        text += claim([speed >= 99, cpu >= 99],
                      "a green thread that computes alone has at least 99 % of the speed of an OS "
                      "thread")
        text += f"It has {speed:.1f} %, by the CPU time of the process {cpu:.1f} %. "
    for x in r.xs():
        used, threads = r.get(GMP, x, "of cpu"), r.get(GMP, x, "threads")
        below = r.get(GMP, x, "below")
        if used and threads and below is not None:
            text += claim([below <= 1], "tasks that only compute keep all Ps busy")
            text += (f"In {below:.1f} % of the samples fewer OS threads than Ps are in state R, "
                     f"and at most {threads:.0f} at a time; the time is {used:.2f} of the CPU time "
                     f"by the number of Ps. ")
    text += finite_tasks(r)
    rows = [(x, f) for x in r.xs() for f in FIGURES if r.get(GMP, x, f) is not None]
    if rows:
        text += ("Ratios of the same round, their median and quartiles:\n\n"
                 "| situation | figure | gmp | of Go's | of that with GMP_PREEMPT=off | of OS "
                 "threads' |\n"
                 "|---|---|---|---|---|---|\n")
        for x, f in rows:
            name, unit = FIGURES[f]
            text += (f"| {x} | {name} | {short(r.get(GMP, x, f))}{unit} | "
                     f"{spread(ratios(r, x, f, GMP, GO))} | "
                     f"{spread(ratios(r, x, f, GMP, OFF))} | "
                     f"{spread(ratios(r, x, f, GMP, NATIVE))} |\n")
    return text.rstrip() or "Too few points were measured."
