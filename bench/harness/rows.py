# SPDX-License-Identifier: MIT
"""Which rows are there, and what should each reach?  rows.tsv says it."""

from collections import namedtuple

# name: may end in ":figure", where one process has several.  procs: Ps, 0 = without a runtime.
# Targets are None where there is none; above is (name, procs), easy says that it is a stretch.
Row = namedtuple("Row", "name procs when most ratio value stretch above easy")


def job(row):
    """What one process measures: the row without its figure."""
    return (row.name.split(":")[0], row.procs)


def read(path):
    def number(s):
        return None if s == "-" else float(s)

    table = []
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.startswith("#") or not line.strip():
                continue
            c = line.rstrip("\n").split("\t")
            above, easy = None, False
            if len(c) > 7 and c[7]:
                easy = c[7].startswith("stretch:")
                name, procs = c[7].removeprefix("stretch:").rsplit("@", 1)
                above = (name, int(procs))
            table.append(Row(c[0], int(c[1]), c[2], int(c[3]), number(c[4]), number(c[5]),
                             number(c[6]),
                             above, easy))
    return table
