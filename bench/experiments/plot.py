# SPDX-License-Identifier: MIT
"""How does a table become a picture?  Lines and bars in SVG, nothing more."""

import math
from html import escape

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 180, 40, 50
COLOURS = ["#1b6ca8", "#d1495b", "#2e933c", "#8f5db7", "#e08e1b", "#4a4a4a", "#17a2a2", "#a0522d"]


def short(v):
    """A number as a tick of an axis has it."""
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(v) >= size:
            return f"{v / size:g}{sign}"
    return f"{v:g}"


class Axis:
    """From values to places; logarithmic axes have ticks at 1, 2, 5 of a decade, or at 1."""

    def __init__(self, values, begin, end, log):
        self.log, self.begin, self.end = log, begin, end
        low, high = min(values), max(values)
        if log:
            low, high = math.log10(low), math.log10(high)
            low, high = math.floor(low * 3 + 1e-9) / 3, math.ceil(high * 3 - 1e-9) / 3
        else:
            low = min(0, low)
            high *= 1.05
        self.low, self.high = low, high if high > low else low + 1

    def at(self, v):
        v = math.log10(v) if self.log else v
        return self.begin + (v - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self):
        if not self.log:
            step = 10 ** math.floor(math.log10(self.high))
            step = next(s for s in (step / 5, step / 2, step, step * 2) if self.high / s <= 8)
            return [i * step for i in range(int(self.high / step) + 1)]
        digits = (1,) if self.high - self.low > 3 else (1, 2, 5)
        decades = range(math.floor(self.low), math.ceil(self.high) + 1)
        return [d * 10.0**e for e in decades for d in digits
                if self.low - 1e-9 <= math.log10(d * 10.0**e) <= self.high + 1e-9]


def text(x, y, words, anchor="middle", **more):
    extra = "".join(f' {k.replace("_", "-")}="{v}"' for k, v in more.items())
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{extra}>{escape(words)}</text>'


def line(x1, y1, x2, y2, colour="#ddd"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def page(height, title, parts):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'font-family="sans-serif" font-size="12">\n'
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>\n'
            + text(WIDTH / 2, 20, title, font_size=14) + "\n" + "\n".join(parts) + "\n</svg>\n")


def lines(title, series, x_label, y_label, log_x=True, log_y=True):
    """series: {name: [(x, y), ...]}"""
    points = [p for s in series.values() for p in s]
    x = Axis([p[0] for p in points], LEFT, WIDTH - RIGHT, log_x)
    y = Axis([p[1] for p in points], HEIGHT - BOTTOM, TOP, log_y)
    parts = []
    for v in y.ticks():
        parts += [line(LEFT, y.at(v), WIDTH - RIGHT, y.at(v)),
                  text(LEFT - 6, y.at(v) + 4, short(v), "end")]
    few = sorted({p[0] for p in points})
    for v in few if len(few) <= 6 else x.ticks():
        parts += [line(x.at(v), TOP, x.at(v), HEIGHT - BOTTOM),
                  text(x.at(v), HEIGHT - BOTTOM + 16, short(v))]
    parts += [text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, x_label),
              text(16, HEIGHT / 2, y_label, transform=f"rotate(-90 16 {HEIGHT / 2})")]
    for i, (name, at) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        where = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in at)
        parts.append(f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="3" fill="{colour}"/>'
                  for a, b in at]
        parts += [line(WIDTH - RIGHT + 12, TOP + 18 * i, WIDTH - RIGHT + 32, TOP + 18 * i, colour),
                  text(WIDTH - RIGHT + 38, TOP + 18 * i + 4, name, "start")]
    return page(HEIGHT, title, parts)


def bars(title, rows, x_label, log=True):
    """rows: [(label, value)], from the top"""
    left, step = 250, 22
    height = TOP + step * len(rows) + BOTTOM
    values = [v for _, v in rows if v > 0]
    x = Axis(values + ([min(values) / 2] if log else []), left, WIDTH - 80, log)
    parts = []
    for v in x.ticks():
        parts += [line(x.at(v), TOP, x.at(v), height - BOTTOM),
                  text(x.at(v), height - BOTTOM + 16, short(v))]
    for i, (label, v) in enumerate(rows):
        y = TOP + step * i
        parts += [text(left - 8, y + 15, label, "end"),
                  f'<rect x="{left}" y="{y + 4}" width="{max(x.at(v) - left, 1):.1f}" height="14" '
                  f'fill="{COLOURS[0]}"/>',
                  text(x.at(v) + 6, y + 15, f"{v:,.3g}" if v < 1000 else f"{v:,.0f}", "start")]
    parts.append(text((left + WIDTH - 80) / 2, height - 12, x_label))
    return page(height, title, parts)
