# SPDX-License-Identifier: MIT
"""Prints the table, and writes the JSON file of the results."""

import json

from . import rows, stats
from .peers import ACROSS, TITLES


def number(x):
    if x >= 1000 or x == int(x):
        return "%d" % (x + 0.5)
    return "%.0f" % x if x >= 100 else "%.1f" % x if x >= 10 else "%.2f" % x


def scaled(x, unit):
    if unit == "ns" and x >= 10000:
        return scaled_up(x)
    return "%.3f %%" % x if unit == "percent" else number(x) + " " + unit


def scaled_up(x):
    return number(x / 1e6) + " ms" if x >= 1e7 else number(x / 1e3) + " us"


def cell(result, side, row):
    """Median, and between the quartiles where there is more than one round."""
    v = result.values.get((side, row.name, row.procs))
    unit = result.unit(row)
    if not v:
        if (side, rows.job(row)) in result.failed:
            return "FAILED"
        return "not run" if side == "gmp" else "-"
    s = scaled(stats.median(v), unit)
    if len(v) > 1:
        s += " (%s – %s)" % (scaled(stats.quantile(v, 0.25), unit),
                             scaled(stats.quantile(v, 0.75), unit))
    return s


def ratio_text(r):
    return "-" if r is None else "%.2f" % r


def best(result, row, among=TITLES):
    """The fastest of the others but Go: (name, ratio)."""
    found = None
    for side in result.sides[1:]:
        r = result.ratio(row, side.name)
        if side.name != "go" and side.name in among and r is not None and (found is None
                                                                           or r > found[1]):
            found = (side.name, r)
    return found


def judge(result, row):
    """The target in words, and whether it is met."""
    words, met, unit = [], [], result.unit(row)
    mine = result.median("gmp", row)
    hard = []
    if row.ratio is not None:
        words.append("≤ %g of Go" % row.ratio)
        r = result.ratio(row, "go")
        if r is not None:
            hard.append(r <= row.ratio)
    if row.value is not None:
        words.append("≤ " + scaled(row.value, unit))
        if mine is not None:
            hard.append(mine <= row.value)
    if row.above:
        name, procs = row.above
        words.append("%s≤ %s%s" %
                     ("stretch " if row.easy else "", name, ", %d P" % procs if procs else ""))
        v = result.values.get(("gmp", name, procs))
        if v and mine is not None:
            if row.easy:
                met.append("stretch " + ("yes" if mine <= stats.median(v) else "no"))
            else:
                hard.append(mine <= stats.median(v))
    if hard:
        met.insert(0, "yes" if all(hard) else "NO")
    if row.stretch is not None:
        words.append("stretch ≤ " + scaled(row.stretch, unit))
        if mine is not None:
            met.append("stretch " + ("yes" if mine <= row.stretch else "no"))
    return "; ".join(words) or "-", "; ".join(met) or "-"


def procs(row):
    return str(row.procs) if row.procs else "-"


def beside_go(result, chosen):
    lines = ["| row | Ps | gmp | Go | gmp/Go | target | met |", "|---|---|---|---|---|---|---|"]
    for row in chosen:
        target, met = judge(result, row)
        lines.append("| %s | %s | %s | %s | %s | %s | %s |" % (
            row.name, procs(row), cell(result, "gmp", row), cell(result, "go", row),
            ratio_text(result.ratio(row, "go")), target, met))
    return lines


def beside_others(result, chosen):
    others = [s.name for s in result.sides[1:] if s.name != "go"]
    mine = [r for r in chosen
            if any(rows.job(r) in s.rows for s in result.sides[1:] if s.name != "go")]
    if not mine:
        return []
    lines = ["| row | Ps | gmp | " + " | ".join(TITLES[o] for o in others) + " | gmp/best |",
             "|---|---|---|" + "---|" * (len(others) + 1)]
    for row in mine:
        b = best(result, row)
        lines.append("| %s | %s | %s | %s | %s |" % (
            row.name, procs(row), cell(result, "gmp", row),
            " | ".join(cell(result, o, row) for o in others),
            "%.2f (%s)" % (b[1], TITLES[b[0]]) if b else "-"))
    return lines


def behind(result, timed, among, peers, wanted=""):
    """In how many rows is gmp faster than the best of these?  One line, or none."""
    with_best = [(r, best(result, r, among)) for r in timed]
    with_best = [(r, b) for r, b in with_best if b]
    if not with_best:
        return []
    slower = ["%s at %s (%s, %.2f)" % (r.name, procs(r), TITLES[b[0]], b[1])
              for r, b in with_best if b[1] >= 1]
    return ["- faster than %s in %d of %d rows%s%s" % (
        peers, len(with_best) - len(slower), len(with_best), wanted,
        ". Not in: " + ", ".join(slower) if slower else "")]


# Work that a second P can share: how much does it help?
SHARED = ("yield/1000", "yield/100000", "spawn/1000", "spawn/100000", "fib", "sieve/1500",
          "sieve/2000")


def both_ps(result, timed):
    parts = []
    for name in SHARED:
        found = (next((r for r in timed if (r.name, r.procs) == (name, n)), None) for n in (1, 2))
        one, two = (result.median("gmp", r) if r else None for r in found)
        if one and two:
            parts.append("%s %.2f" % (name, two / one))
    if not parts:
        return []
    return ["- time with two Ps by that with one (wanted: at most 1, and 0.56 of fib): " +
            ", ".join(parts)]


def summary(result, chosen):
    """In how many rows is gmp ahead?  Of times only."""
    lines = []
    timed = [r for r in chosen if result.unit(r) in ("ns", "ms")]
    for n in (1, 2):
        with_go = [(r, result.ratio(r, "go")) for r in timed if r.procs == n]
        with_go = [(r, x) for r, x in with_go if x is not None]
        if with_go:
            slower = [r.name for r, x in with_go if x >= 1]
            lines.append("- %d P%s: faster than Go in %d of %d rows (wanted: all), "
                         "median ratio %.2f (wanted: 0.4)%s" % (
                n, "s" if n > 1 else "", len(with_go) - len(slower), len(with_go),
                stats.median([x for _, x in with_go]),
                ". Not in: " + ", ".join(slower) if slower else ""))
    measured = [s.name for s in result.sides[1:]]
    loops = [name for name in TITLES if name not in ACROSS and name in measured]
    lines += behind(result, timed, ACROSS, "the best peer that works across threads",
                    " (wanted: all but three)")
    lines += behind(result, timed, loops, "the best peer with one loop on one thread")
    lines += both_ps(result, timed)
    for s in result.absent:
        lines.append("- %s is not measured: %s" % (TITLES[s.name], s.missing))
    for job, why in result.skipped.items():
        lines.append("- %s is skipped: %s" % (job[0], why))
    return lines


def head(result):
    m = result.machine
    lines = ["%s · %d CPUs · %s · %s · gmp %s · %s" % (m["cpu"], m["cpus"], m["kernel"],
             result.versions["compiler"], result.versions["gmp"], result.date), ""]
    for name, version in result.versions.items():
        if name not in ("gmp", "compiler"):
            lines.append("- %s: %s" % (TITLES[name], version))
    options = ("" if result.mode == "full" else ", --" + result.mode) + \
        (", --only " + result.only if result.only else "") + \
        (", beside %d processes that compute" % result.busy if result.busy else "")
    lines += ["", "%d rounds%s in %d s, load average %s at the end. Other processes and the host "
                  "took at most %.1f %% of the CPU time in a round. Medians, in brackets the "
                  "quartiles, and without them the only figure; times for one operation." % (
                      result.rounds, options, result.took, m["load"], 100 * max(result.others))]
    return lines


def show(result, chosen, path):
    body = beside_go(result, chosen)
    others = beside_others(result, chosen)
    end = summary(result, chosen)
    print("\n".join([""] + body + [""] + others + [""] + end + [""]))
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(["# Benchmarks", ""] + head(result) +
                          ["", "What each row measures, and when it misleads: bench/rows.md.", ""] +
                          end + ["", "## Beside Go", ""] + body))
        f.write("\n" + "\n".join(["", "## Beside the others", ""] + others if others else []) +
                "\n")


def json_file(result, chosen, path):
    table = []
    for row in chosen:
        one = {"row": row.name, "procs": row.procs, "unit": result.unit(row),
               "count": result.counts.get(rows.job(row), (0, 0))[1], "sides": {}, "ratios": {}}
        for side in result.sides:
            v = result.values.get((side.name, row.name, row.procs))
            if v:
                one["sides"][side.name] = {"median": stats.median(v), "q1": stats.quantile(v, 0.25),
                                           "q3": stats.quantile(v, 0.75), "runs": v}
                if side.name != "gmp":
                    one["ratios"][side.name] = result.ratio(row, side.name)
        one["target"], one["met"] = judge(result, row)
        table.append(one)
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"date": result.date, "machine": result.machine, "versions": result.versions,
                   "mode": result.mode, "rounds": result.rounds, "seconds": result.took,
                   "others": result.others,
                   "faults": result.faults, "rows": table}, f, indent=1)
