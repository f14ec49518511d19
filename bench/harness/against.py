# SPDX-License-Identifier: MIT
"""Is this build faster or slower than that one?

Each round gives one ratio of the two, measured one after the other; the median of the rounds is
shown, with the interval in which it lies with a probability of 95 per cent.  Where that does not
hold 1, something has
changed, in one row of twenty by chance."""

from . import stats
from .report import procs, scaled


def show(result, chosen, path):
    lines = ["| row | Ps | this | other | ratio | 95 % | |", "|---|---|---|---|---|---|---|"]
    for row in chosen:
        mine = result.values.get(("gmp", row.name, row.procs))
        theirs = result.values.get(("other", row.name, row.procs))
        if not mine or not theirs or len(mine) != len(theirs) or min(mine + theirs) <= 0:
            lines.append("| %s | %s | %s | %s | - | - | |" %
                         (row.name, procs(row), "there" if mine else "-",
                                                               "there" if theirs else "-"))
            continue
        ratios = [a / b for a, b in zip(mine, theirs)]
        low, high = stats.interval(ratios)
        unit = result.unit(row)
        word = "" if low <= 1 <= high or len(ratios) < 4 else "SLOWER" if low > 1 else "faster"
        lines.append("| %s | %s | %s | %s | %.3f | %.3f – %.3f | %s |" % (
            row.name, procs(row), scaled(stats.median(mine), unit),
            scaled(stats.median(theirs), unit),
            stats.median(ratios), low, high, word))
    print("\n" + "\n".join(lines) + "\n")
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
