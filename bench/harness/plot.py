# SPDX-License-Identifier: MIT
"""The ratios as pictures, by gnuplot."""

import os
import shutil
import subprocess

from . import report
from .peers import TITLES

HEAD = """set terminal svg size {width},{height} font "sans-serif,11" background "white"
set output "{path}"
set title "{title}"
set logscale x
set grid x
set xlabel "gmp's time as a share of theirs (less is better for gmp)"
set yrange [-0.7:{last}]
set ytics scale 0 font ",9"
set key {key}
set style fill solid 0.8 noborder
set arrow from 1, graph 0 to 1, graph 1 nohead lc rgb "#444444"
"""


def gnuplot(text):
    subprocess.run(["gnuplot"], input=text, text=True, check=False)


def quote(s):
    return s.replace("\\", "\\\\").replace('"', "'").replace("_", "\\\\_")


def bars(path, title, labels, series):
    """Points on one line for each label; series: title -> list of values or None."""
    if not labels or not any(v is not None for vs in series.values() for v in vs):
        return False
    text = HEAD.format(width=900, height=90 + 18 * len(labels), path=path, title=title,
                       last=len(labels) - 0.3, key="outside top horizontal" if len(series) > 1
                       else "off")
    text += "set ytics (%s)\n" % ", ".join('"%s" %d' % (quote(s), i) for i, s in enumerate(labels))
    text += "plot " + ", ".join("'-' using 1:2 with points pt 7 ps 0.7 title \"%s\"" % t
                                for t in series) + "\n"
    for values in series.values():
        for i, v in enumerate(values):
            if v is not None:
                text += "%g %d\n" % (v, i)
        text += "e\n"
    gnuplot(text)
    return True


def draw(result, chosen, out):
    """What was written."""
    if not shutil.which("gnuplot"):
        print("no plots: gnuplot is missing")
        return []
    written = []
    timed = [r for r in chosen if result.unit(r) in ("ns", "ms")]
    for n in (1, 2):
        pairs = sorted(((result.ratio(r, "go"), r.name) for r in timed
                        if r.procs == n and result.ratio(r, "go") is not None), reverse=True)
        path = os.path.join(out, "go-%d.svg" % n)
        if bars(path, "gmp beside Go, %d P%s" % (n, "s" if n > 1 else ""), [p[1] for p in pairs],
                {"Go": [p[0] for p in pairs]}):
            written.append(path)
    mine = [r for r in timed if report.best(result, r)][::-1]
    others = [s.name for s in result.sides[1:]]
    path = os.path.join(out, "peers.svg")
    if bars(path, "gmp beside the others", ["%s at %s" % (r.name, report.procs(r)) for r in mine],
            {TITLES[o]: [result.ratio(r, o) for r in mine] for o in others}):
        written.append(path)
    return written
