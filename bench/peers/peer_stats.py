# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of bench/peers: medians, paired ratios, bootstrap intervals.

Invariant: a ratio is taken within a round, between two cells that ran at most minutes apart, and
the result is the median of these. A ratio of two medians would compare different minutes.
"""

import random
import statistics

N_RESAMPLES = 10000


def quantile(values, share):
    """The smallest value that at least this share of the values does not exceed."""
    ordered = sorted(values)
    if not ordered:
        return None
    at = max(0, min(len(ordered) - 1, -int(-share * len(ordered) // 1) - 1))
    return ordered[at]


def interval(values, share=0.95, seed=0):
    """Percentile bootstrap of the median: (low, high). The same values give the same interval."""
    if len(values) < 2:
        return None, None
    draw = random.Random(seed)
    medians = [statistics.median(draw.choices(values, k=len(values))) for _ in range(N_RESAMPLES)]
    return quantile(medians, (1 - share) / 2), quantile(medians, 1 - (1 - share) / 2)


def describe(values):
    """median, low, high, n of a list; None for an empty list."""
    values = [value for value in values if value is not None]
    if not values:
        return None
    low, high = interval(values)
    return {"median": statistics.median(values), "low": low, "high": high, "n": len(values)}


def by_round(cells, peer, contract, workers, field):
    """{round: value}, of the cells that are not void."""
    return {cell["round"]: cell[field] for cell in cells
            if (cell["peer"], cell["contract"], cell["workers"]) == (peer, contract, workers)
            and not cell.get("void") and cell.get(field) is not None}


def paired(above, below):
    """Ratios, for the rounds that both have."""
    return [above[key] / below[key] for key in sorted(above) if key in below and below[key] > 0]


def order_of_round(items, number, n_rounds):
    """The items, rotated: each round begins further on, and every second round goes backwards."""
    if not items:
        return []
    start = number * len(items) // max(1, n_rounds) % len(items)
    turned = items[start:] + items[:start]
    return turned[::-1] if number % 2 else turned
