"""The time of a single sample under every method of the paper, and ours: Table 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from shardmark.leaderboard.report import Report, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run
from shardmark.leaderboard.reproductions._frame import ratio
from shardmark.leaderboard.reproductions.placement import _shared as placement
from shardmark.leaderboard.reproductions.placement._shared import Case, Row, Settings, of_printed

#: Subgraphs per accelerator of each method: one, or any number. The last three methods are not the paper's.
METHODS = {
    "greedy": ("contiguous",),
    "max-load-dp": ("contiguous",),
    "scotch": ("free",),
    "expert": ("contiguous",),
    "ip": ("contiguous",),
    "ip-noncontiguous": ("free",),
    "metis": ("free",),
    "equal-parts": ("contiguous",),
    "search": ("contiguous", "free"),
}
YARDSTICK = ("ip", "contiguous")
#: Methods drawn with it, each in its own colour.
DRAWN = ("greedy", "max-load-dp", "scotch", "ip-noncontiguous", "search")
DEFAULTS = Settings(
    seed=0,
    instances=("placement-latency",),
    solvers=tuple(METHODS),
    bounds=("critical-path", "memory-path", "chains"),
    timeout=60.0,
    bound_timeout=20.0,
)
PARTS = {"operators-latency": "Operators", "layers-latency": "Layers", "": "Others"}
#: Reasons why baselines differ from the paper's.
DIFFERENCES = (
    "greedy depends on the topological order, and max-load-dp on the choice among several best splits; the paper "
    "states neither. Its Scotch runs subgraphs of one accelerator concurrently; here they wait for each other.",
    "expert does not run: of the paper's experts only splits for throughput are published. That of BERT-24 uses six "
    "accelerators, but the file for latency has five: on six its latency is the printed 111.94. equal-parts gives each "
    "accelerator the same number of nodes.",
)


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """Every solver in its modes, and every bound, on every available file."""
    return placement.cells(settings, "latency", METHODS)


def report(settings: Settings, runs: list[Run]) -> Report:
    """Latencies and their gaps to the bounds, ours and the paper's."""
    every = placement.cases(settings, "latency", runs)
    return placement.report(
        every,
        settings,
        [_section(title, cases, settings) for title, cases in placement.parts(every, PARTS)],
        DIFFERENCES,
        name="placement-latency",
        title="Which split answers first?",
        about="The time that one sample takes on accelerators that cannot hold the whole network in memory: the "
        "paper's eight workloads, as published, and found here under the referee. An accelerator runs one contiguous "
        "subgraph (contiguous), or any number of them in turn (free), as in ip-noncontiguous.",
    )


def _section(title: str, cases: Sequence[Case], settings: Settings) -> Section:
    tables = [
        Table("Latency, and Table 4", placement.comparison(cases, settings, METHODS), digits=2),
        Table(
            "Remaining gaps",
            [_gap(case) for case in cases],
            digits=2,
            note="Open: 1 − bound / latency, as in the paper. Here: the least latency of all runs with one subgraph "
            "per accelerator, and the greatest of all bounds.",
        ),
    ]
    found = placement.section(title, cases, settings, METHODS, tables, DRAWN, YARDSTICK)
    return replace(found, words=[words for case in cases for words in _exceeding(case)])


def _gap(case: Case) -> Row:
    best, bound = case.best("contiguous"), case.bound("contiguous")
    proved = ratio(bound, best)
    return {
        "instance": case.name,
        "paper's ip": case.printed("ip"),
        "open there": case.published.get("gap"),
        "least here": best,
        "least here / paper's ip": of_printed(best, case.printed("ip")),
        "bound": bound,
        "open, %": None if proved is None else 100 * (1 - proved),
        "least with any subgraphs": case.best(*placement.MODES),
    }


def _exceeding(case: Case) -> list[str]:
    """List the paper's splits that exceed the memory, which count as infeasible here."""
    exceeding = case.published.get("exceeds", {})
    told = [f"{name} ({text or 'by far'})" for name, text in exceeding.items()]
    return [f"{case.name}: the paper's splits that exceed the memory are left out: {', '.join(told)}."] if told else []
