"""The axes that charts of several pages share."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from shardmark.leaderboard import charts


def fractions() -> charts.Scale:
    """The axis of shares from 0 to 100 %."""
    return charts.linear(0.0, 1.0, lambda value: f"{100 * value:.0f} %")


def losses(bars: Sequence[charts.Bar], axis: str, wide: int = charts.WIDE) -> Markup:
    """Bars of scores on a logarithmic axis of what they lack to 1, so that a bad one does not flatten the others."""
    values = [value for bar in bars for value in (bar.value, bar.floor) if value is not None]
    scale = charts.losses(min(values, default=1.0), max(values, default=1.0))
    return charts.responsive(lambda width: charts.ranking(bars, width, f"{axis}, log", scale), wide)


def times(values: Sequence[float], limit: float) -> charts.Scale:
    """The logarithmic axis of times in seconds, from the first event to the time limit or the last event."""
    low = max(min(values) * 0.8, 1e-3)
    return charts.logarithmic(low, max(limit, max(values), low * 2), lambda value: f"{value:g} s")
