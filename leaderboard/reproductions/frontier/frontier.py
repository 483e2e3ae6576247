"""Which gaps are still open: gaps, proofs and scale on all four tracks, in the papers, before and today.

Figures of before were measured before the work began and are kept in a file with the goals; today's are measured by
the referee. The issue's limits are options: 10 minutes for proofs and placements, the contest's for its instances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from shardmark.instances import InputError
from shardmark.leaderboard.report import Report, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run, Settings, _frame, failures
from shardmark.leaderboard.reproductions.frontier import _intraop, _pipeline, _placement, _scheduling
from shardmark.leaderboard.reproductions.frontier._goals import Row, figures
from shardmark.leaderboard.reproductions.pipeline import _shared as archer
from shardmark.leaderboard.text import count


@dataclass(frozen=True)
class Part:
    """A part of the frontier: the runs that it needs, the goals that they tell of, and its own section."""

    plan: Callable[[Settings, Path], list[Cell]]
    goals: Callable[[Settings, list[Run]], list[Row]]
    section: Callable[[Settings, list[Run]], Section]


PARTS = {
    "intraop": Part(_intraop.plan, _intraop.goals, _intraop.section),
    "proofs": Part(_pipeline.plan_proofs, _pipeline.goals_proofs, _pipeline.section_proofs),
    "scale": Part(_pipeline.plan_scale, _pipeline.goals_scale, _pipeline.section_scale),
    "placement": Part(_placement.plan, _placement.goals, _placement.section),
    "scheduling": Part(_scheduling.plan, _scheduling.goals, _scheduling.section),
    "tight": Part(_scheduling.plan_tight, _scheduling.goals_tight, _scheduling.section_tight),
}
GOAL_LIMIT_S = 600.0  # of proofs and placements; no instance of the contest has a longer limit
DEFAULTS = Settings(
    seed=0,
    parts=tuple(PARTS),
    instances=("contest",),
    graphs=4,
    stages=archer.STAGES,
    nodes=100_000,
    runs=1,
    tight=20,
    timeout=60.0,
    bound_timeout=60.0,
)


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """The runs of all requested parts; InputError for an unknown part, or none at all."""
    if not settings.parts or not set(settings.parts) <= set(PARTS):
        expected = f"expected some of {', '.join(PARTS)}, found {', '.join(settings.parts) or 'none'}"
        raise InputError("reproduce frontier", "--parts", expected)
    return [
        replace(cell, about=(part, cell.about))
        for part in settings.parts
        for cell in PARTS[part].plan(settings, folder)
    ]


def report(settings: Settings, runs: list[Run]) -> Report:
    """All goals in one table, then every part."""
    found = {part: _of(part, runs) for part in settings.parts}
    goals = [row for part, its in found.items() for row in PARTS[part].goals(settings, its)]
    return _frame.report(
        settings,
        [_summary(settings, goals), *(PARTS[part].section(settings, its) for part, its in found.items())],
        name="frontier",
        title="What is still open?",
        about="Gaps between costs and bounds where the field had none or large ones, before and after: every figure of "
        "today is measured by the referee.",
        sample=", ".join(settings.parts),
        limits=_frame.limits(settings, f"{settings.timeout:g} s for each solver, and never more than the contest's"),
        made="other machines: each part says which figures are published",
        notes=[
            f"The earlier figures were {figures()['measured']}.",
            *failures([run for run in runs if not _scheduling.decided(run)]),
        ],
        sources=figures()["papers"],
        empty=not runs,
    )


def _of(part: str, runs: Sequence[Run]) -> list[Run]:
    """The runs of a part, with its own labels."""
    return [replace(run, cell=replace(run.cell, about=run.cell.about[1])) for run in runs if run.cell.about[0] == part]


def _summary(settings: Settings, goals: Sequence[Row]) -> Section:
    reached = sum(row["reached"] == "yes" for row in goals)
    measured = sum(row["reached"] != "–" for row in goals)
    words = f"Measured here: {measured} of {count(len(goals), 'goal')}. Reached: {reached}."
    note = f"A dash: not measured, or no such figure.{_short(settings)}"
    table = Table("Before, today, and the aim", goals, digits=3, note=note)
    return Section("The frontier", [words], [table])


def _short(settings: Settings) -> str:
    """A warning if runs had less time than the goals are meant for; else nothing."""
    if min(settings.timeout, settings.bound_timeout) >= GOAL_LIMIT_S:
        return ""
    return (
        f" The goals assume {GOAL_LIMIT_S:g} s, or the contest's limits on its instances. Here solvers had "
        f"{settings.timeout:g} s and bounds {settings.bound_timeout:g} s, so a missed goal may be reached with full "
        f"time."
    )
