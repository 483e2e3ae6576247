"""Scales of axes: linear, logarithmic, and of relative distances."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from shardmark.leaderboard.text import short

GAP_UNIT = 1e-4  # distances below 0.01 % are drawn linearly
DECADES = (1.0, 0.1, 0.01, 0.001, 0.0)  # distances of scores from 1 at the ticks of `losses`
LOSSES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001, 0.0)  # and those of a short axis
FEWEST = 3  # ticks of `losses` with these distances: an axis with fewer has round ones
FARTHEST = 1e300  # greatest distance on an axis: in units of `GAP_UNIT` it still fits float64


@dataclass(frozen=True)
class Scale:
    """A monotone map from values to [0, 1], linear after ``forward``, with labelled ticks."""

    low: float
    high: float
    forward: Callable[[float], float]
    ticks: Sequence[tuple[float, str]]

    def __call__(self, value: float) -> float:
        """Position of a value, clamped to [0, 1]; it is computed once, as charts are drawn in two sizes."""
        known = self._known.get(value)
        if known is None:
            low, high = self._ends
            place = (self.forward(min(max(value, self.low), self.high)) - low) / ((high - low) or 1.0)
            known = self._known[value] = min(max(place, 0.0), 1.0)
        return known

    @cached_property
    def _known(self) -> dict[float, float]:
        return {}

    @cached_property
    def _ends(self) -> tuple[float, float]:
        return self.forward(self.low), self.forward(self.high)


def linear(low: float, high: float, label: Callable[[float], str] = short) -> Scale:
    """A linear scale."""
    return Scale(low, high, float, [(v, label(v)) for v in round_values(low, high)])


def round_values(low: float, high: float, about: int = 5) -> list[float]:
    """About ``about`` round numbers from low to high."""
    raw = (high - low) / about
    if not 1e-300 < raw < math.inf:  # below, powers of ten lose their digits
        return [low]
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [float(f"{i * step:.15g}") for i in range(first, math.floor(high / step + 1e-9) + 1)]


def logarithmic(low: float, high: float, label: Callable[[float], str] = short) -> Scale:
    """A logarithmic scale; 0 < low < high."""
    if high / low < 10:  # powers of ten are too far apart here
        return Scale(low, high, math.log10, [(v, label(v)) for v in round_values(low, high)])
    steps = (1,) if high / low > 1000 else (1, 3) if high / low > 20 else (1, 2, 5)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    round_ones = [
        float(f"{m}e{p}") for p in powers for m in steps
    ]  # ** would overflow beyond float64, this is infinite
    ticks = [value for value in round_ones if low / 1.0001 <= value and value / 1.0001 <= high]
    return Scale(low, high, math.log10, [(v, label(v)) for v in ticks])


def symmetric(value: float, unit: float) -> float:
    """Logarithmic on both sides of zero, linear within ``unit`` of it."""
    return math.copysign(math.log10(1 + abs(value) / unit), value)


def gaps(low: float, high: float, zero: str = "best") -> Scale:
    """A scale of relative distances from a best value, at 0 and labelled ``zero``; down to -1 below it.

    Values beyond `FARTHEST`, such as infinity, are at the end of the axis.
    """
    high = min(high, FARTHEST)
    above = [(0.001, "+0.1 %"), (0.01, "+1 %"), (0.1, "+10 %"), (1.0, "2×")]
    powers = range(1, max(math.ceil(math.log10(high + 1)) + 1, 1))
    every = max(1, len(powers) // 4)
    above += [(10.0**p - 1, f"{10**p:,}×" if p < 5 else f"1e{p}×") for p in powers if p % every == 0]
    below = [(-0.001, "−0.1 %"), (-0.01, "−1 %"), (-0.1, "−10 %"), (-1.0, "−100 %")]
    ticks = [(v, words) for v, words in [*below[::-1], (0.0, zero), *above] if low <= v <= high]
    return Scale(low, high, partial(symmetric, unit=GAP_UNIT), ticks)


def losses(low: float, high: float = 1.0) -> Scale:
    """A scale of scores, logarithmic in their distances from 1, with which its ticks are labelled.

    A single low score leaves room for the differences among high ones; within `GAP_UNIT` of 1 the scale is linear. It
    covers ``low`` and ``high`` and ends at 1, unless all scores are far from it.
    """
    most = min(max(1.3 * (1 - low), 0.002), 1.0)
    least = 0.0 if high > 0.99 else (1 - high) / 1.3
    found = [loss for loss in LOSSES if least <= loss <= most]
    decades = [loss for loss in found if loss in DECADES]
    if len(decades) >= FEWEST and (least == 0 or most / least > 30):
        found = decades
    if len(found) < FEWEST:
        found = round_values(least, most)[::-1]
    ticks = [(1 - loss, f"{100 * loss:g} %" if loss else "0") for loss in found]
    return Scale(1 - most, 1 - least, lambda score: -symmetric(1.0 - score, GAP_UNIT), ticks)


def amounts(low: float, high: float) -> Scale:
    """A scale of costs, logarithmic away from zero, for instances whose best cost is 0 or unknown."""
    unit = max(abs(low), abs(high), 1e-300) / 1e4
    top = math.floor(math.log10(max(high, unit)))
    ticks = [(0.0, "0"), *((10.0**p, short(10.0**p)) for p in range(top - 3, top + 1))]
    return Scale(low, high, partial(symmetric, unit=unit), [t for t in ticks if low <= t[0] <= high])
