"""All drawings of solutions by the type of their data, and how to read each."""

from __future__ import annotations

from markupsafe import Markup

from shardmark.leaderboard.charts import WIDE
from shardmark.leaderboard.drawings import lanes_svg, loads_svg, schedule_svg, split_svg, timeline_svg
from shardmark.leaderboard.drawings.choices import memory_svg, shares_svg
from shardmark.leaderboard.report import Loads, Memory, Schedule, Shares, Split, Timeline

Drawable = Split | Schedule | Loads | Memory | Shares | Timeline
Pictures = tuple[Drawable, ...]


def draw(picture: Drawable, wide: int = WIDE) -> Markup:
    """A drawing of a solution."""
    match picture:
        case Split():
            return (lanes_svg if split_svg.is_large(picture) else split_svg).draw(picture, wide)
        case Schedule():
            return schedule_svg.draw(picture, wide)
        case Loads():
            return loads_svg.draw(picture, wide)
        case Memory():
            return memory_svg.draw(picture, wide)
        case Shares():
            return shares_svg.draw(picture, wide)
        case Timeline():
            return timeline_svg.draw(picture, wide)


def key(picture: Drawable) -> str:
    """Sentences on how to read a drawing; those of shares and timelines are their captions."""
    match picture:
        case Split():
            return (lanes_svg if split_svg.is_large(picture) else split_svg).KEY
        case Schedule():
            return schedule_svg.key(picture)
        case Loads():
            return loads_svg.key(picture)
        case Memory():
            return memory_svg.KEY
        case Shares() | Timeline():
            return ""
