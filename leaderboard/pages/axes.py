"""The axes that charts of several pages share."""

from __future__ import annotations

from collections.abc import Sequence

from leaderboard import charts


def fractions() -> charts.Scale:
    """The axis of shares from 0 to 100 %."""
    return charts.linear(0.0, 1.0, lambda value: f"{100 * value:.0f} %")


def times(values: Sequence[float], limit: float) -> charts.Scale:
    """The logarithmic axis of times in seconds, from the first event to the time limit or the last event."""
    low = max(min(values) * 0.8, 1e-3)
    return charts.logarithmic(low, max(limit, max(values), low * 2), lambda value: f"{value:g} s")
