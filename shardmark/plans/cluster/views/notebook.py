"""What a notebook shows of a layout: facts, the table of stages, and the stages over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

from shardmark.leaderboard.charts import tag
from shardmark.leaderboard.drawings import timeline_svg
from shardmark.notebook import in_notebook
from shardmark.plans.cluster.certified_layout import CertifiedLayout
from shardmark.plans.cluster.views.text import in_lines, rows, short
from shardmark.plans.cluster.views.timeline import simulated, timeline


def notebook(layout: CertifiedLayout) -> str:
    """HTML for a notebook."""
    found = timeline(layout, simulated(layout))
    drawn = timeline_svg.draw(found) + tag("p", escape(found.caption))
    return in_notebook(in_lines(layout), _table(rows(layout)), drawn)


def _table(stages: Sequence[Mapping[str, object]]) -> Markup:
    head = tag("tr", *(tag("th", escape(name)) for name in stages[0]))
    lines = (tag("tr", *(tag("td", escape(short(value))) for value in row.values())) for row in stages)
    return tag("table", head, *lines, class_="stages")
