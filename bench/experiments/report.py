# SPDX-License-Identifier: MIT
"""Writes the report: tables and paragraphs in Markdown, a plot beside each."""

import plot

OPENING = """<!-- SPDX-License-Identifier: MIT; made by ./dev bench experiments --docs -->
# Eight experiments

Claims about the scheduler of Go and its likes, tried with gmp. Each opens with the claim; then come
a table, a plot, and what the figures say. The programs lie in
[bench/experiments/](../bench/experiments); each begins with what it does, and verifies its work.

| | |
|---|---|
"""

FACTS = [("machine", "machine"), ("gmp", "gmp"), ("compiler", "compiler"), ("go", "Go"),
         ("redis", "redis"), ("command", "command"), ("load", "load average"), ("date", "date")]


def heading(e):
    return f"## {e.number}. {e.title}"


def labelled(name, unit):
    return f"{name}, {unit}" if unit else name


def number(v):
    if v >= 100 or v == int(v):
        return f"{v:,.0f}"
    return f"{v:.1f}" if v >= 10 else f"{v:.2f}" if v >= 0.1 else f"{v:.2g}"


def cell(values, spread):
    """A median, and with several runs the least and the most."""
    if not values:
        return "—"
    values = sorted(values)
    n = len(values)
    middle = values[n // 2] if n % 2 else (values[n // 2 - 1] + values[n // 2]) / 2
    if not spread or n < 2:
        return number(middle)
    return f"{number(middle)} ({number(values[0])}–{number(values[-1])})"


def table_of(header, rows):
    text = "| " + " | ".join(header) + " |\n|" + "---|" * len(header) + "\n"
    return text + "".join("| " + " | ".join(row) + " |\n" for row in rows)


def list_table(e, results):
    """A row for each point, a column for each figure."""
    header = [e.series_label, e.x_label] + [labelled(name, unit) for _, name, unit in e.columns]
    rows = []
    for series, x in results.points():
        rows.append([series, str(x)] + [
            cell(results.values(series, x, figure), i == 0)
            for i, (figure, _, _) in enumerate(e.columns)])
    return table_of(header, rows)


def matrix_table(e, results, figure, name, unit):
    """A row for each x, a column for each series."""
    columns = [s for s in results.series()
               if any(results.values(s, x, figure) for x in results.xs())]
    header = [f"{labelled(name, unit)} · {e.x_label}"] + columns
    rows = [[f"{x:,}" if isinstance(x, int) else str(x)]
            + [cell(results.values(s, x, figure), len(columns) < 5) for s in columns]
            for x in results.xs()]
    return table_of(header, rows) if columns else ""


def tables(e, results):
    if e.matrix:
        return "\n".join(t for t in (matrix_table(e, results, *c) for c in e.columns) if t)
    return list_table(e, results)


def picture(e, results):
    figure, name, unit = e.columns[0]
    label = labelled(name, unit)
    if e.lines:
        series = {}
        for s in results.series():
            at = [(x, results.get(s, x, figure)) for x in results.xs()]
            at = [(x, v) for x, v in at if v]
            if at:
                series[s] = at
        return plot.lines(e.title, series, e.x_label, label) if series else None
    rows = [(f"{s}, {x}", results.get(s, x, figure)) for s, x in results.points()]
    rows = [(label_, v) for label_, v in rows if v]
    return plot.bars(e.title, rows, label, e.log) if rows else None


def write(folder, name, facts, measured, plots="."):
    (folder / plots).mkdir(exist_ok=True)
    text = OPENING + "".join(f"| {label} | {facts[key]} |\n" for key, label in FACTS)
    text += (f"\nMedians of {facts['rounds']} rounds (the slowest points: fewer), in brackets the "
             f"least and the"
             f" most; " if facts["rounds"] > 1
             else "\nOne round; ") + f"{facts['seconds']} s in all.\n"
    for e, results, notes in measured:
        text += f"\n{heading(e)}\n\n*The claim:* {e.claim}\n\n{e.work}\n\n{tables(e, results)}\n"
        svg = picture(e, results)
        if svg:
            (folder / plots / f"{e.number}-{e.name}.svg").write_text(svg)
            text += f"![{e.title}]({plots}/{e.number}-{e.name}.svg)\n\n"
        for note in notes:
            text += f"Not measured: {note}.\n\n"
        text += f"**What it says.** {e.answer(results)}\n\n*When it misleads:* {e.misleads}\n"
    (folder / name).write_text(text)
