# SPDX-License-Identifier: MIT
"""In which order is measured?

One process for each row, side and round; the sides alternate, the rounds outermost: a slow minute
of the machine hits all sides, and no row finds another's caches or heap.  Each round begins with
another
side."""

import datetime
import os
import platform
import subprocess
import time

from . import ground, peers, rows, stats


class Result:
    def __init__(self, sides):
        self.sides = [s for s in sides if not s.missing]
        self.absent = [s for s in sides if s.missing]
        self.values = {}    # (side, row name, procs) -> values, one a round
        self.units = {}     # (row name, procs) -> unit
        self.counts = {}    # job -> N and COUNT
        self.failed = set() # (side, job)
        self.skipped = {}   # job -> why
        self.faults = []
        self.rounds = self.took = 0
        self.others = []    # what other processes and the host took, one share a round

    def add(self, side, figures):
        for (name, procs), (unit, value, _) in figures.items():
            self.values.setdefault((side, name, procs), []).append(value)
            self.units[name, procs] = unit

    def fail(self, side, job, why):
        if (side, job) not in self.failed:
            self.failed.add((side, job))
            self.faults.append("%s, %s with %d Ps: %s" % (side, job[0], job[1], why))

    def median(self, side, row):
        v = self.values.get((side, row.name, row.procs))
        return stats.median(v) if v else None

    def ratio(self, row, side):
        """gmp's to the side's, of medians; None where one of them is not there."""
        mine, theirs = self.median("gmp", row), self.median(side, row)
        return mine / theirs if mine is not None and theirs else None

    def unit(self, row):
        return self.units.get((row.name, row.procs), "")

    def describe(self, root, build, mode, only, busy):
        def said(*command):
            try:
                return subprocess.run(command, capture_output=True, text=True,
                                      check=True).stdout.strip()
            except (OSError, subprocess.CalledProcessError):
                return ""

        cpu = compiler = ""
        with open("/proc/cpuinfo", encoding="utf-8") as f:
            for line in f:
                if line.startswith("model name"):
                    cpu = line.split(":", 1)[1].strip()
                    break
        with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as f:
            for line in f:
                if line.startswith("CMAKE_C_COMPILER:"):
                    compiler = said(line.strip().split("=", 1)[1], "--version").split("\n")[0]
        self.mode, self.only, self.busy = mode, only, busy
        self.machine = {"cpu": cpu or "unknown", "cpus": len(os.sched_getaffinity(0)),
                        "kernel": platform.system() + " " + platform.release(),
                        "load": "%.2f %.2f %.2f" % os.getloadavg()}
        dirty = "-dirty" if ground.dirty(root) else ""
        self.versions = {"gmp": (said("git", "-C", root, "describe", "--always") or "unknown") +
                         dirty,
                         "compiler": compiler or "unknown"}
        for s in self.sides + self.absent:
            if s.name != "gmp":
                self.versions[s.name] = s.missing or s.version
        self.date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def lacks_memory(job):
    """A million parked green threads take 5 GB."""
    if not (job[0].startswith("memory/") and job[0].endswith("/1000000")):
        return None
    with open("/proc/meminfo", encoding="utf-8") as f:
        for line in f:
            if line.startswith("MemAvailable") and int(line.split()[1]) < 8000000:
                return "needs 8 GB of free memory"
    return None


def one(result, side, job, count):
    try:
        figures = side.measure(job, count)
        for n in figures.values():
            # a slow side may do less: the times are those of one operation
            if not 0 < n[2] <= count[1] or (side.name == "gmp" and n[2] != count[1]):
                raise peers.Failed("did %d operations of %d" % (n[2], count[1]))
        result.add(side.name, figures)
    except (peers.Failed, ValueError) as e:
        result.fail(side.name, job, str(e))


def run(sides, chosen, counts, seconds, most_rounds, page=False):
    """page: as many rounds as a page needs, though they take longer; ends with the first round that
    a page may not be made of."""
    result = Result(sides)
    least_rounds = ground.ROUNDS if page else 1
    jobs = {}
    for row in chosen:
        jobs[rows.job(row)] = row.most
    began = time.monotonic()
    longest = 0
    while True:
        result.rounds += 1
        print("round %d, after %d s" % (result.rounds, time.monotonic() - began), flush=True)
        start = time.monotonic()
        others = ground.Others()
        for job, most in jobs.items():
            if result.rounds > most or job in result.skipped:
                continue
            why = lacks_memory(job)
            if why:
                result.skipped[job] = why
                continue
            if job not in counts:
                result.fail("gmp", job, "there is no such row")
                continue
            result.counts[job] = counts[job]
            turn = result.rounds % len(result.sides)
            for side in result.sides[turn:] + result.sides[:turn]:
                if job in side.rows and (side.name, job) not in result.failed:
                    one(result, side, job, counts[job])
        result.others.append(others.share())
        if page and result.others[-1] > ground.OTHERS:
            break
        now = time.monotonic()
        longest = max(longest, now - start) if result.rounds < 2 else now - start
        if result.rounds == most_rounds or result.rounds >= max(jobs.values()) or \
                (now - began + longest > seconds and result.rounds >= least_rounds):
            break
    result.took = time.monotonic() - began
    return result
