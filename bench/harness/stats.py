# SPDX-License-Identifier: MIT
"""What do some measurements of the same thing say?"""

import random


def quantile(values, q):
    v = sorted(values)
    at = q * (len(v) - 1)
    low = int(at)
    high = min(low + 1, len(v) - 1)
    return v[low] + (v[high] - v[low]) * (at - low)


def median(values):
    return quantile(values, 0.5)


def interval(values, statistic=median, level=0.95, draws=2000):
    """The interval of the statistic with the given probability, by drawing again from what was
    measured (percentile bootstrap).  The draws are always the same."""
    draw = random.Random(1)
    seen = [statistic(draw.choices(values, k=len(values))) for _ in range(draws)]
    return quantile(seen, (1 - level) / 2), quantile(seen, (1 + level) / 2)
