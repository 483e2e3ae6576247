"""The page of a plan: one HTML file that opens anywhere, its style inside."""

from __future__ import annotations

from markupsafe import Markup

from shardmark.leaderboard.build import STATIC
from shardmark.leaderboard.pages.environment import environment
from shardmark.leaderboard.report import Report
from shardmark.leaderboard.reproduction_page import figures, grid


def render(report: Report) -> str:
    """The page of a report, with no link to another file."""
    sections = [(section, [grid(x) for x in section.tables], figures(section.pictures)) for section in report.sections]
    style = Markup((STATIC / "style.css").read_text(encoding="utf-8"))
    return environment().get_template("plan.html").render(report=report, sections=sections, style=style)
