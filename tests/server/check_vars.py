# SPDX-License-Identifier: MIT
"""Checks a /debug/vars document: strict JSON, and the fields of docs/api/debug-server.md.

    check_vars.py FILE PID
"""
import json
import sys

STATS = """greens greens_running greens_runnable greens_waiting threads threads_idle procs
procs_idle timers descriptors stack_bytes stacks_used stacks_cached stacks_unguarded spawns exits
switches steals stolen overflows polls poll_events wakeups parks spins handoffs timers_fired
trimmed_bytes latency_samples latency_p50 latency_p90 latency_p99 latency_max greens_blocked
preempted preemptions longest_run preempted_ns abandoned cpu_ns unannounced
preempt_refused timers_skipped latency""".split()
CAUSES = "spawn yield timer descriptor blocking wake".split()
P = """id status thread runnext ring yielded timers switches spawns exits steals stolen
overflows""".split()
G = "id name entry state cpu_ns wait_ns wait".split()
TOP = "version pid run time_ns start_ns procs cputime stats ps global_queue greens".split()


def refuse(what):
    raise ValueError("no JSON: %s" % what)


def unique(pairs):
    keys = [k for k, _ in pairs]
    if len(keys) != len(set(keys)):
        refuse("a key twice: %s" % keys)
    return dict(pairs)


def check(cond, what):
    if not cond:
        sys.exit("check_vars.py: %s" % what)


def is_count(v):
    return type(v) is int and v >= 0


def fields(what, d, keys):
    check(sorted(d) == sorted(keys), "%s has the fields %s" % (what, sorted(d)))


def check_green(g):
    fields("a green thread", g, G)
    check(is_count(g["id"]) and is_count(g["wait_ns"]), g)
    check(g["cpu_ns"] is None or is_count(g["cpu_ns"]), g)
    check(all(type(g[k]) is str for k in ("name", "entry", "state", "wait")), g)


def main(path, pid):
    with open(path, "rb") as f:
        text = f.read().decode("utf-8", "strict")
    d = json.loads(text, parse_constant=refuse, parse_float=refuse, object_pairs_hook=unique)
    fields("the document", d, TOP)
    check(d["pid"] == int(pid) and d["run"] == 1 and d["time_ns"] > d["start_ns"] > 0, d)
    check(type(d["version"]) is str and type(d["cputime"]) is bool, d)
    fields("stats", d["stats"], STATS)
    check(all(is_count(v) for k, v in d["stats"].items() if k != "latency"), d["stats"])
    fields("latency", d["stats"]["latency"], CAUSES)
    for q in d["stats"]["latency"].values():
        fields("a latency", q, "samples p50 p90 p99 max".split())
        check(all(map(is_count, q.values())), q)
    check(len(d["ps"]) == d["procs"] == d["stats"]["procs"], d["ps"])
    for i, p in enumerate(d["ps"]):
        fields("a P", p, P)
        check(p["id"] == i and p["status"] in "running idle blocked retired".split(), p)
        check(all(is_count(v) for k, v in p.items() if k != "status"), p)
    fields("global_queue", d["global_queue"], ["events", "yielded"])
    fields("greens", d["greens"], ["alive", "by_cpu", "by_wait"])
    check(d["greens"]["alive"] == d["stats"]["greens"] >= 19, d["greens"])
    check(d["cputime"] or d["greens"]["by_cpu"] == [], d["greens"])
    waits = d["greens"]["by_wait"]
    check(len(waits) >= 19 and len(waits) <= 20, len(waits))
    for g in waits:
        check_green(g)
    names = [g["name"] for g in waits]
    for name in ("plain", '"quoted"', "back\\slash", "line\nfeed", "caf\u00e9 \U0001f9f5",
                 "\ufffd\ufffd", "\x01\x1b[31m", "</script>&'", '{"a":1}'):
        check(name in names, "no green thread %r in %r" % (name, names))
    locker = [g for g in waits if g["name"] == "locker"]
    check(len(locker) == 1 and locker[0]["wait"] == "mutex lock", locker)
    check(locker[0]["entry"] == "locker" and locker[0]["state"] == "waiting", locker)
    check(locker[0]["wait_ns"] >= 40000000, locker)


main(*sys.argv[1:])
