# SPDX-License-Identifier: MIT
"""Compares the lists of rows: gmp-bench, rows.tsv, rows.md and docs/benchmarks.md."""

import fnmatch
import re

from . import unmet
from .rows import job


def paragraphs(path):
    """The headings of rows.md, each one or more patterns of rows, with the text below."""
    found = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.startswith("### "):
                found.append((re.findall(r"`([^`]+)`", line), []))
            elif line.startswith("## "):
                found.append(([], [line]))
            elif found:
                found[-1][1].append(line)
    return [(patterns, "".join(text).strip()) for patterns, text in found]


def paragraph_of(name, all_paragraphs):
    base = name.split(":")[0]
    for patterns, text in all_paragraphs:
        if any(fnmatch.fnmatchcase(base, p) for p in patterns):
            return text
    return None


def profiles(table, path):
    """Each row that docs/profiles.md speaks of is there."""
    faults = []
    for title, patterns in unmet.causes(path):
        faults += ["docs/profiles.md, %s: %s is no row" % (title, p) for p in patterns
                   if not any(unmet.speaks_of(p, r) for r in table)]
        if not patterns:
            faults.append("docs/profiles.md, %s: of which rows?" % title)
    return faults


def rows(gmp, table, about):
    faults = []
    told = {job(r) for r in table}
    faults += ["rows.tsv lacks %s at %d Ps" % j for j in sorted(gmp.rows - told)]
    faults += ["gmp-bench has no row %s at %d Ps" % j for j in sorted(told - gmp.rows)]
    text = paragraphs(about)
    names = {j[0] for j in told}
    faults += ["rows.md says nothing of " + n for n in sorted(names) if not paragraph_of(n, text)]
    for patterns, _ in text:
        faults += ["rows.md has %s, which is no row" % p for p in patterns
                   if not fnmatch.filter(names, p)]
    return faults


def docs(table, path):
    """The rows of the table in the documentation are those of rows.tsv."""
    shown = set()
    with open(path, encoding="utf-8") as f:
        text = f.read()
    part = re.search(r"^## Beside Go\n(.*?)(^## |\Z)", text, re.S | re.M)
    for line in part.group(1).splitlines() if part else []:
        c = [x.strip() for x in line.split("|")]
        if len(c) > 3 and re.fullmatch(r"[0-9]+|-", c[2]):
            shown.add((c[1], int(c[2]) if c[2] != "-" else 0))
    told = {(r.name, r.procs) for r in table}
    if not part or "\n## Where a target is not met\n" not in text:
        return ["docs/benchmarks.md lacks a table: write it again (./dev bench --docs)"]
    again = ": write it again (./dev bench --docs)"
    return ["docs/benchmarks.md lacks %s at %d Ps%s" % (*j, again)
            for j in sorted(told - shown)] + \
           ["docs/benchmarks.md has %s at %d Ps, which is no row%s" % (*j, again)
            for j in sorted(shown - told)]
