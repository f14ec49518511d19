# SPDX-License-Identifier: MIT
"""Writes docs/benchmarks.md: the tables of one run, and the paragraphs about the rows."""

import shlex

from . import check, report, rows, unmet
from .peers import TITLES

INTRO = """<!-- SPDX-License-Identifier: MIT -->
<!-- Made by ./dev bench --docs; the paragraphs are those of bench/rows.md. -->
# Benchmarks

gmp compared with others that do the same work, in the same minutes, on the machine below.
`./dev bench` measures the tables of this page on your machine, `./dev bench --docs` writes this
page.  [bench/README.md](../bench/README.md) says how it is measured. A ratio below 1 says that gmp
is faster.  `-`: the peer cannot do that, or the row is not written for it.
"""


UNMET = """\
The targets are those of the table above, to be faster than Go and the best peer that works across
threads, and not to be slower with two Ps than with one. "Met by quartiles": the quarter of the
rounds that was best for gmp meets the target, so the miss may be noise. The last column leads to a
profile, [profiles.md](profiles.md).
"""


def commands(result, chosen):
    lines = ["One process for each row, side and round, gmp's as in the table and the others' as",
             "`build/bench/peers/NAME/NAME ROW PROCS N COUNT`. How many operations there were: "
             "COUNT.", "",
             "| row | Ps | N | COUNT | gmp's command, in `build/release/bench` | sides |",
             "|---|---|---|---|---|---|"]
    gmp = result.sides[0]
    for j in dict.fromkeys(rows.job(r) for r in chosen if rows.job(r) in gmp.counts):
        n, count = gmp.counts[j]
        command = ["./gmp-bench"] + gmp.command(j, None)[1:]
        lines.append("| %s | %s | %d | %d | `%s` | %s |" % (
            j[0], j[1] or "-", n, count, shlex.join(command),
            ", ".join(TITLES[s.name] for s in result.sides if j in s.rows)))
    return lines


def meanings(chosen, about):
    lines = []
    names = {rows.job(r)[0] for r in chosen}
    for patterns, text in check.paragraphs(about):
        if not patterns:
            lines += ["", text.replace("## ", "### ", 1)]
        elif any(check.paragraph_of(n, [(patterns, text)]) for n in names):
            lines += ["", "**%s.** %s" % (", ".join("`%s`" % p for p in patterns), text)]
    return lines


def write(result, chosen, about, profiles, path):
    others = report.beside_others(result, chosen)
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join([INTRO] + report.head(result) + [""] + report.summary(result, chosen) +
                          ["", "## Beside Go", ""] + report.beside_go(result, chosen) +
                          ["", "## Beside the others", ""] + others +
                          ["", "## Where a target is not met", "", UNMET] +
                          unmet.table(result, chosen, profiles) +
                          ["", "## What the rows mean, and when they mislead"] +
                          meanings(chosen, about) +
                          ["", "## The commands", ""] + commands(result, chosen)) + "\n")
