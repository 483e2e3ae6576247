"""The page of a plan: one HTML file that opens anywhere, its style inside."""

from __future__ import annotations

from markupsafe import Markup

from leaderboard.build import STATIC
from leaderboard.pages.environment import environment
from leaderboard.report import Report
from leaderboard.reproduction_page import figures, grid


def render(report: Report) -> str:
    """The page of a report, with no link to another file."""
    sections = [(section, [grid(x) for x in section.tables], figures(section.pictures)) for section in report.sections]
    style = Markup((STATIC / "style.css").read_text(encoding="utf-8"))
    return environment().get_template("plan.html").render(report=report, sections=sections, style=style)
