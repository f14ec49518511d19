# SPDX-License-Identifier: MIT
"""Lists the targets that are not met, by how much, and the cause, from docs/profiles.md.

Each section of docs/profiles.md names rows, `NAME` or `NAME@PROCS`, where * matches any text, and
shows a profile."""

import fnmatch
import re

from . import report, stats
from .peers import ACROSS, TITLES

UNKNOWN = "not analysed"


def causes(path):
    """Title and patterns of each section."""
    with open(path, encoding="utf-8") as f:
        parts = re.split(r"^## ", f.read(), flags=re.M)[1:]
    found = []
    for part in parts:
        title, _, rest = part.partition("\n")
        rows = re.match(r"\s*Rows: (.*?)\n\n", rest, re.S)
        found.append((title, re.findall(r"`([^`]+)`", rows.group(1)) if rows else []))
    return found


def speaks_of(pattern, row):
    name = row.name.split(":")[0]
    return any(fnmatch.fnmatchcase(s, pattern)
               for s in (row.name, name, "%s@%d" % (row.name, row.procs), "%s@%d" %
                         (name, row.procs)))


def cause(row, found):
    for title, patterns in found:
        if any(speaks_of(p, row) for p in patterns):
            anchor = re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
            return "[%s](profiles.md#%s)" % (title, anchor)
    return UNKNOWN


def best_case(result, row, side):
    """gmp's lower quartile by the upper one of the other: the ratio at the best of the noise."""
    mine, theirs = (result.values.get((s, row.name, row.procs)) for s in ("gmp", side))
    if not mine or not theirs or len(mine) < 4:
        return None
    return stats.quantile(mine, 0.25) / (stats.quantile(theirs, 0.75) or 1)


def faults_of(result, row):
    """(reached, wanted, the factor by which it is too much, is it a stretch, may it be noise)"""
    mine, unit = result.median("gmp", row), result.unit(row)
    if mine is None:
        return []
    low = stats.quantile(result.values["gmp", row.name, row.procs], 0.25)
    found = []

    def absolute(limit, easy, words):
        if limit is not None and mine > limit:
            found.append((report.scaled(mine, unit), words, mine / limit if limit else None, easy,
                          low <= limit))

    def ratio(side, limit):
        r = result.ratio(row, side)
        if r is not None and (r > limit or limit == 1 and r >= 1):
            case = best_case(result, row, side)
            found.append(("%.2f of %s" % (r, TITLES[side]), "%g" % limit, r / limit, False,
                          case is not None and case <= limit))

    timed = unit in ("ns", "ms")
    if row.ratio is not None:
        ratio("go", row.ratio)
    elif timed:
        ratio("go", 1)
    for limit, easy in ((row.value, False), (row.stretch, True)):
        absolute(limit, easy, "" if limit is None else "≤ " + report.scaled(limit, unit))
    if row.above:
        theirs = result.values.get(("gmp",) + row.above)
        absolute(stats.median(theirs) if theirs else None, row.easy, "≤ " + row.above[0])
    if timed:
        other = report.best(result, row, ACROSS)
        if other:
            ratio(other[0], 1)
        if row.name in report.SHARED and row.procs == 2:
            theirs = result.values.get(("gmp", row.name, 1))
            absolute(stats.median(theirs) if theirs else None, False, "≤ with 1 P")
    return found


def table(result, chosen, path):
    found = causes(path)
    lines = ["| row | Ps | reached | wanted | too much by | cause |", "|---|---|---|---|---|---|"]
    for row in chosen:
        for reached, wanted, factor, easy, noise in faults_of(result, row):
            excess = "-" if factor is None else \
                "%.0f %%" % (100 * factor - 100) if factor < 3 else "%.1f times" % factor
            lines.append("| %s | %s | %s | %s%s | %s%s | %s |" % (
                row.name, report.procs(row), reached, wanted, " (stretch)" if easy else "", excess,
                ", met by quartiles" if noise else "", cause(row, found)))
    return lines if len(lines) > 2 else ["All are met."]
