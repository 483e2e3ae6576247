"""Drawings of the best contiguous and non-contiguous splits of a workload: Figure 10."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from shardmark.leaderboard.report import Report, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run
from shardmark.leaderboard.reproductions._frame import ratio
from shardmark.leaderboard.reproductions.placement import _shared as placement
from shardmark.leaderboard.reproductions.placement._shared import Case, Row, Settings

if TYPE_CHECKING:
    from shardmark.leaderboard.report import Split

METHODS = {"dp": ("acyclic",), "ip-contiguous": ("contiguous",), "ip-noncontiguous": ("free",), "search": ("free",)}
DEFAULTS = Settings(seed=0, instances=("bert-3-operators-inference",), solvers=tuple(METHODS), timeout=20.0)
#: Titles of the drawings, and the modes from which each takes the best split.
DRAWN = {"Contiguous sets": ("acyclic", "contiguous"), "Any sets": ("free",)}


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """Every solver in its modes on every available file, with its solution."""
    return placement.cells(settings, "throughput", METHODS, keep=True)


def report(settings: Settings, runs: list[Run]) -> Report:
    """The best split of each kind: a drawing, and the load of each device."""
    every = placement.cases(settings, "throughput", runs)
    return placement.report(
        every,
        settings,
        [section for case in every for section in (_proofs(case, settings), *_drawn(case))],
        name="placement-splits",
        title="What do the best splits look like?",
        about="The splits of a workload with the least largest load, each node in the colour of its device: contiguous "
        "sets, each of which runs without interruption, and any sets. The paper draws the splits of BERT-3 by "
        "operators over three accelerators and a CPU; there any sets have 27 % more throughput.",
    )


def _proofs(case: Case, settings: Settings) -> Section:
    """Describe the best splits, their methods, and the gain of arbitrary sets."""
    theirs = ratio(case.printed("dp"), case.printed("ip-noncontiguous"))
    ours = ratio(case.best("acyclic", "contiguous"), case.best("free"))
    told = {"here": ours, "in the paper": theirs}
    words = [f"{100 * (gain - 1):.1f} % {where}" for where, gain in told.items() if gain is not None]
    return Section(
        case.name,
        [f"Gain of free over contiguous sets: {', '.join(words)}."] if words else [],
        [placement.proofs([case], settings, METHODS)],
    )


def _drawn(case: Case) -> list[Section]:
    """A section for each kind of split that was found."""
    best = {title: _best(case, modes) for title, modes in DRAWN.items()}
    return [_section(case, title, run) for title, run in best.items() if run]


def _best(case: Case, modes: Sequence[str]) -> Run | None:
    """The run of least cost in some modes that has a solution."""
    runs = [run for (_, mode), run in case.runs.items() if mode in modes and run.solution is not None]
    return min((run for run in runs if run.cost is not None), key=lambda run: run.cost or 0.0, default=None)


def _section(case: Case, title: str, run: Run) -> Section:
    from shardmark.leaderboard.drawings import split_layout

    words = f"Found by {run.cell.method}, largest load {run.cost:.6g}. Edges between devices are grey."
    picture = split_layout.drawing(run.cell.problem.instance, run.solution, title=title, caption=words)
    return Section(f"{title} of {case.name}", [], [_loads(picture)], [picture]) if picture else Section(title)


def _loads(picture: Split) -> Table:
    rows: list[Row] = [
        {
            "device": device.name,
            "nodes": sum(i == of for of in picture.device),
            "load": device.load.removeprefix("load "),
        }
        for i, device in enumerate(picture.devices)
    ]
    return Table("Device by device", rows)
