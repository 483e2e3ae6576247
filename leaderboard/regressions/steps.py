"""Steps in a history of measurements: lasting changes of level, told from noise.

The history is divided into spans of one level each, so that

    sum of |value - median of its span| / noise + PENALTY * (number of spans - 1)

is least, in logarithms of the values. A change of level is reported from `PENALTY` times the noise on, also at the
newest commit; a smaller one may be the machine's, and last for all commits that were measured in the same hour. A
single commit that is off by less than twice that is no change. The *noise* of times is the greatest of `FLOOR`, the
median spread of samples within a measurement, and the spread between neighbouring commits, which takes at least
`FEWEST` measurements to estimate. Figures that are the same in every run have hardly any.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from shardmark.leaderboard.regressions.history import Point, Series

PENALTY = 5.0  # times the noise: the least change that is reported
FLOOR = 0.02  # noise of times, relative: machines differ so much from hour to hour
EXACT = 2e-5  # noise of figures that are the same in every run: a change of 0.01 % is reported
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
    """Return all changes of level in a series, oldest first."""
    found = [_step(series, old, new, new[0]) for old, new in pairwise(_levels(series))]
    return [step for step in found if _is_reported(step)]


def regression(series: Series) -> Step | None:
    """Return the change from the least level of a series to its latest one, after the step that left the least one.

    None if the latest level is not worse by at least `PENALTY` times the noise.
    """
    spans = _levels(series)
    best = min(spans, key=lambda span: (_level(series, span), -span[0]))
    if best == spans[-1]:
        return None
    found = _step(series, best, spans[-1], best[1])
    return found if _is_reported(found) else None


def noise(series: Series) -> float:
    """Return the standard deviation of a measurement, in logarithms; see the module."""
    if not series.timed:
        return EXACT
    found = max(FLOOR, median(point.spread for point in series.points))
    if len(series.points) < FEWEST:
        return found
    apart = [abs(b - a) for a, b in pairwise(_scaled(series, point.value) for point in series.points)]
    return max(found, median(apart) / (0.6745 * math.sqrt(2)))


def _is_reported(step: Step) -> bool:
    return abs(math.log(step.ratio)) >= PENALTY * noise(step.series)


def _scaled(series: Series, value: float) -> float:
    """Return the logarithm of a time, and of 1 + x for another figure x."""
    return math.log(max(value, 1e-12)) if series.timed else math.log1p(max(value, 0.0))


def _levels(series: Series) -> list[tuple[int, int]]:
    """Return the spans [begin, end) of the points with one level each."""
    return _spans([_scaled(series, point.value) for point in series.points], noise(series))


def _level(series: Series, span: tuple[int, int]) -> float:
    return median(point.value for point in series.points[slice(*span)])


def _step(series: Series, old: tuple[int, int], new: tuple[int, int], cut: int) -> Step:
    a, b = _level(series, old), _level(series, new)
    ratio = math.exp(_scaled(series, b) - _scaled(series, a))
    return Step(series, series.points[cut - 1], series.points[cut], a, b, ratio)


def _spans(values: Sequence[float], unit: float) -> list[tuple[int, int]]:
    """Return the best division into spans [begin, end), by dynamic programming over their ends; see the module."""
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
    """Yield for every begin, the last one first, the sum of distances of the values from there on from their median."""
    ordered: list[float] = []
    total = 0.0
    for begin in reversed(range(len(values))):
        value, count = values[begin], len(ordered)
        if count:  # the nearest of all medians stays one
            total += max(ordered[(count - 1) // 2] - value, value - ordered[count // 2], 0.0)
        insort(ordered, value)
        yield begin, total
