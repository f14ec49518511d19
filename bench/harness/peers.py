# SPDX-License-Identifier: MIT
"""The programs that are measured, and how each is called.

gmp-bench is a program of its own kind.  Every other is a folder of peers/ with a script `build`.
Called with a folder to build in, it leaves a program of its own name there and prints its versions;
status 3 means that a requirement is missing, and its last line names it.  The program prints its
rows, one NAME<tab>PROCS on a line, for --rows, and measures one if it is called with NAME PROCS N
COUNT: a line of JSON for each figure, with the number of operations, which may be less than COUNT.
It ends with status 1, after a message on stderr, if the work was not done."""

import json
import os
import re
import subprocess

# In the order of the table.
KNOWN = ["go", "pthreads", "boost-fiber", "boost-context", "libuv", "tokio", "may", "java"]
TITLES = {"gmp": "gmp", "go": "Go", "pthreads": "pthreads", "boost-fiber": "Boost.Fiber",
          "boost-context": "Boost.Context", "libuv": "libuv", "tokio": "tokio", "may": "may",
          "java": "Java", "other": "other"}
# Peers that move green threads between OS threads; the others have one loop each.
ACROSS = {"go", "pthreads", "boost-fiber", "tokio", "may", "java"}
LIMIT = 120


class Failed(Exception):
    pass


class Side:
    """version says what it is; missing why it is not there."""

    def __init__(self, name):
        self.name, self.version, self.missing = name, "", None
        self.rows = set()

    def command(self, job, count):
        raise NotImplementedError

    def measure(self, job, count):
        """The figures of one process: (name, procs) -> (unit, value, count)."""
        command = self.command(job, count)
        try:
            p = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired:
            raise Failed("%s: not done after %d s" % (" ".join(command), LIMIT)) from None
        if p.returncode != 0 or not p.stdout.strip():
            raise Failed("%s: status %d: %s" %
                         (" ".join(command), p.returncode, p.stderr.strip()[:500]))
        figures = {}
        for line in p.stdout.splitlines():
            f = json.loads(line)
            name, procs, n = f.pop("name"), f.pop("procs"), f.pop("count")
            (unit, value), = f.items()
            figures[name, procs] = (unit, value, n)
        return figures


class Gmp(Side):
    """counts: (name, procs) -> N and COUNT, which the others get as arguments."""

    def __init__(self, name, build, scale):
        super().__init__(name)
        self.program = os.path.join(build, "bench", "gmp-bench")
        self.scale = scale
        self.counts = {}
        if not os.access(self.program, os.X_OK):
            raise SystemExit("bench/run: %s is not there: build with Google Benchmark installed "
                             "(libbenchmark-dev)" % self.program)
        listed = subprocess.run([self.program, "--list", "--scale=%g" % scale], capture_output=True,
                                text=True,
                                check=False)
        if listed.returncode != 0:
            raise SystemExit("bench/run: %s has no --list: it is too old to be compared" %
                             self.program)
        for line in listed.stdout.splitlines():
            row, procs, n, count = line.split("\t")
            self.counts[row, int(procs)] = (int(n), int(count))
        self.rows = set(self.counts)

    def command(self, job, count):
        return [self.program, "--lines", "--scale=%g" % self.scale,
                "--benchmark_filter=^%s/procs:%d/" %
                (re.sub(r"([][.+*?(){}^$|\\])", r"\\\1", job[0]), job[1])]


class Peer(Side):
    def __init__(self, name, source, out):
        super().__init__(name)
        self.program = os.path.join(out, name)
        os.makedirs(out, exist_ok=True)
        p = subprocess.run([os.path.join(source, "build"), out], text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, check=False)
        last = (p.stdout.strip().splitlines() or [""])[-1]
        if p.returncode == 3:
            self.missing = "missing: " + last
        elif p.returncode != 0:
            self.missing = "does not build"
            print(p.stdout)
        else:
            self.version = last
            listed = subprocess.run([self.program, "--rows"], capture_output=True, text=True,
                                    check=True).stdout
            for line in listed.splitlines():
                row, procs = line.split("\t")
                self.rows.add((row, int(procs)))

    def command(self, job, count):
        return [self.program, job[0], str(job[1]), str(count[0]), str(count[1])]


def build(source, out, wanted):
    """Builds all of them, or the wanted ones."""
    names = KNOWN if wanted is None else [n for n in wanted.split(",") if n and n != "none"]
    peers = []
    for name in names:
        if name not in KNOWN:
            raise SystemExit("bench/run: no peer %s; there are %s" % (name, " ".join(KNOWN)))
        if not os.path.exists(os.path.join(source, name, "build")):
            continue
        print("building", name, flush=True)
        peer = Peer(name, os.path.join(source, name), os.path.join(out, name))
        print("  " + (peer.missing or peer.version), flush=True)
        peers.append(peer)
    return peers
