"""Charts as inline SVG: rankings, and curves over time or distance; colours come from the style sheet's classes.

Every chart is drawn twice, for wide and for narrow screens, so that its text keeps its size; the style sheet shows one
of the two. Lengths are SVG user units, which the page shows as CSS pixels or less.
"""

from shardmark.leaderboard.charts.curves import MAX_POINTS, Curve, Rule, curves, figure, legend, spread, thin
from shardmark.leaderboard.charts.elements import COLOURS, HALF, NARROW, WIDE, responsive, svg, tag, text, tooltip
from shardmark.leaderboard.charts.rows import (
    Bar,
    Mark,
    Strip,
    dodged,
    key,
    lowest,
    ranking,
    row_name,
    ruled,
    strips,
    without_overlaps,
)
from shardmark.leaderboard.charts.scales import Scale, amounts, gaps, linear, logarithmic, losses, round_values

__all__ = [
    "COLOURS",
    "HALF",
    "MAX_POINTS",
    "NARROW",
    "WIDE",
    "Bar",
    "Curve",
    "Mark",
    "Rule",
    "Scale",
    "Strip",
    "amounts",
    "curves",
    "dodged",
    "figure",
    "gaps",
    "key",
    "legend",
    "linear",
    "logarithmic",
    "losses",
    "lowest",
    "ranking",
    "responsive",
    "round_values",
    "row_name",
    "ruled",
    "spread",
    "strips",
    "svg",
    "tag",
    "text",
    "thin",
    "tooltip",
    "without_overlaps",
]
