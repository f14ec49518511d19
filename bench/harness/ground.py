# SPDX-License-Identifier: MIT
"""Checks that the machine is quiet enough for a page, and makes load on purpose."""

import contextlib
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

IDLE = 0.95  # share of the CPUs' time
OTHERS = 0.02  # at most, in a round
ROUNDS = 5  # at least: quartiles of fewer say nothing


def dirty(root):
    """Files that differ from the commit, except the pages that are being made."""
    done = subprocess.run(["git", "status", "--porcelain", "--", ".", ":!docs/benchmarks*",
                           ":!docs/experiments*", ":!README.md"],
                          capture_output=True, text=True, cwd=root)
    if done.returncode != 0:
        return ["(not a git checkout)"]
    return [line[3:] for line in done.stdout.splitlines()]


def ticks():
    fields = [int(f) for f in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return fields[3] + fields[4], sum(fields)


def idle(seconds=3.0):
    """The share of the CPUs' time in which nothing ran or was stolen by the host."""
    idle0, all0 = ticks()
    time.sleep(seconds)
    idle1, all1 = ticks()
    return (idle1 - idle0) / max(all1 - all0, 1)


def own_seconds():
    """CPU time of this process and of its children that have ended."""
    return sum(u.ru_utime + u.ru_stime for u in (resource.getrusage(resource.RUSAGE_SELF),
                                                 resource.getrusage(resource.RUSAGE_CHILDREN)))


class Others:
    """What other processes and the host take of the CPUs' time: from its making to share()."""

    def __init__(self, read=ticks, own=own_seconds):
        self.read, self.own = read, own
        self.before = read(), own()

    def share(self):
        (idle0, all0), own0 = self.before
        (idle1, all1), own1 = self.read(), self.own()
        used = (all1 - all0) - (idle1 - idle0) - (own1 - own0) * os.sysconf("SC_CLK_TCK")
        return max(used, 0) / max(all1 - all0, 1)


def unfit(rounds, others):
    """Why a page may not be made of these rounds, or None.  others: their shares, one a round."""
    if max(others) > OTHERS:
        return f"other processes or the host took {100 * max(others):.1f} % of the CPU time in " \
               f"round {others.index(max(others)) + 1} (at most {100 * OTHERS:.0f} %)"
    if rounds < ROUNDS:
        return f"{rounds} rounds (at least {ROUNDS})"
    return None


@contextlib.contextmanager
def busy(processes):
    """So many processes compute meanwhile."""
    started = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
               for _ in range(processes)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def refusal(root, seconds=3.0):
    """Why no page may be made, or None."""
    files = dirty(root)
    if files:
        return "the tree is not clean: " + ", ".join(files[:3]) + (" ..." if len(files) > 3 else "")
    share = idle(seconds)
    if share < IDLE:
        return f"the machine is not quiet: {100 * (1 - share):.0f} % of its CPU time is in use " \
               "(at most " \
               f"{100 * (1 - IDLE):.0f} %)"
    return None
