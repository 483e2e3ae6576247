"""Steps in a history of measurements: lasting changes of level, told from noise.

The history is divided into spans of one level each, so that

    sum of |value - median of its span| / noise + PENALTY * (number of spans - 1)

is least, in logarithms of the values. A lasting change is therefore told from `PENALTY` times the noise on, if it is at
the newest commit, and a single commit that is off by less than twice that is no change. The *noise* of times is the
greatest of `FLOOR`, the median spread of samples within a measurement, and the spread between neighbouring commits,
which takes at least `FEWEST` measurements to estimate. Figures that are the same in every run have hardly any.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from leaderboard.regressions.history import Point, Series

PENALTY = 5.0  # times the noise: the least lasting change that is told
FLOOR = 0.02  # noise of times, relative: machines differ so much from hour to hour
EXACT = 2e-5  # noise of figures that are the same in every run: a change of 0.01 % is told
FEWEST = 6  # measurements from which the spread between commits is estimated


@dataclass(frozen=True)
class Step:
    """A change of level from the measurement ``before`` to the measurement ``after``.

    ``ratio`` is the level of times after it over the level before it, of other figures x the ratio of 1 + x.
    """

    series: Series
    before: Point
    after: Point
    old: float
    new: float
    ratio: float

    @property
    def worse(self) -> bool:
        """True if the level rose."""
        return self.ratio > 1


def steps(series: Series) -> list[Step]:
    """All changes of level in a series, oldest first."""
    values = _scaled(series)
    spans = _spans(values, noise(series))
    return [
        _step(series, (first, cut), (cut, end), cut) for (first, cut), (_, end) in pairwise(spans) if first < cut < end
    ]


def regression(series: Series) -> Step | None:
    """The latest level against the least one before it, with the step by which that was left; None if no worse."""
    spans = _spans(_scaled(series), noise(series))
    best = min(spans, key=lambda span: (_level(series, span), -span[0]))
    if best == spans[-1]:
        return None
    found = _step(series, best, spans[-1], best[1])
    return found if math.log(found.ratio) >= PENALTY * noise(series) else None


def noise(series: Series) -> float:
    """The standard deviation of a measurement, in logarithms; see the module."""
    if not series.timed:
        return EXACT
    found = max(FLOOR, median(point.spread for point in series.points))
    if len(series.points) < FEWEST:
        return found
    apart = [abs(b - a) for a, b in pairwise(_scaled(series))]
    return max(found, median(apart) / (0.6745 * math.sqrt(2)))


def _scaled(series: Series) -> list[float]:
    """Logarithms of times, and of 1 + x for other figures x."""
    forward = (lambda x: math.log(max(x, 1e-12))) if series.timed else (lambda x: math.log1p(max(x, 0.0)))
    return [forward(point.value) for point in series.points]


def _level(series: Series, span: tuple[int, int]) -> float:
    return median(point.value for point in series.points[slice(*span)])


def _step(series: Series, old: tuple[int, int], new: tuple[int, int], cut: int) -> Step:
    a, b = _level(series, old), _level(series, new)
    ratio = b / a if series.timed else (1 + b) / (1 + a)
    return Step(series, series.points[cut - 1], series.points[cut], a, b, ratio)


def _spans(values: Sequence[float], unit: float) -> list[tuple[int, int]]:
    """The best division into spans [begin, end), by dynamic programming over their ends; see the module."""
    best, cuts = [-PENALTY], [0]
    for end in range(1, len(values) + 1):
        options = ((best[begin] + off / unit + PENALTY, begin) for begin, off in _deviations(values[:end]))
        cost, begin = min(options)
        best.append(cost)
        cuts.append(begin)
    spans = []
    end = len(values)
    while end:
        spans.append((cuts[end], end))
        end = cuts[end]
    return spans[::-1]


def _deviations(values: Sequence[float]) -> Iterator[tuple[int, float]]:
    """For every begin, the sum of distances of the values from there on from their median."""
    ordered: list[float] = []
    for begin in reversed(range(len(values))):
        insort(ordered, values[begin])
        half = len(ordered) // 2
        yield begin, sum(ordered[-half:]) - sum(ordered[:half]) if half else 0.0
