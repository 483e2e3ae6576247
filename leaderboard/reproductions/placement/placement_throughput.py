"""The largest load of a device under every method of the paper, and ours: Tables 1 and 2, Figure 9."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shardmark.leaderboard.report import PAPER, Report, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run
from shardmark.leaderboard.reproductions._frame import ratio
from shardmark.leaderboard.reproductions.placement import _shared as placement
from shardmark.leaderboard.reproductions.placement._ideals import count_ideals
from shardmark.leaderboard.reproductions.placement._shared import Case, Row, Settings

#: Mode of each method, in the order of columns; methods after the paper's are ours.
METHODS = {
    "dp": ("acyclic",),
    "ip-contiguous": ("contiguous",),
    "ip-noncontiguous": ("free",),
    "dpl": ("acyclic",),
    "expert": ("free",),
    "local-search": ("free",),
    "pipedream": ("acyclic",),
    "scotch": ("free",),
    "metis": ("free",),
    "one-accelerator": ("free",),
    "equal-parts": ("free",),
    "search": ("free",),
}
YARDSTICK = ("dp", "acyclic")
#: Methods drawn with it, each in its own colour.
DRAWN = ("ip-noncontiguous", "expert", "local-search", "pipedream", "scotch", "search")
DEFAULTS = Settings(
    seed=0,
    instances=("placement-throughput",),
    solvers=tuple(METHODS),
    bounds=("load", "node", "anchored", "lp"),
    timeout=60.0,
    bound_timeout=20.0,
)
#: The parts of the paper's tables: suffixes of names, and titles.
PARTS = {
    "operators-inference": "Operators, pipelined inference",
    "operators-training": "Operators, pipelined training",
    "layers-inference": "Layers, pipelined inference",
    "layers-training": "Layers, pipelined training",
    "": "Others",
}
#: Reasons why figures differ from the paper's.
DIFFERENCES = (
    "dp is exact here and in the paper: if it ends, it differs from the printed figure only by rounding. The printed "
    "figures of ip-contiguous and ip-noncontiguous are within 1 % of the optimum, or the best found in 20 minutes. Not "
    "every contiguous split is acyclic; the paper has one figure for both.",
    "dpl depends on the topological order, which the paper does not state. local-search starts from random splits, and "
    "here respects memory limits and unsupported nodes. scotch and metis minimise all transfers, and ignore CPUs.",
    "expert does not run: the paper's own splits are verified here if their files are available. equal-parts gives "
    "each accelerator the same number of nodes, as some of them do. pipedream contracts every branching; the published "
    "program cuts some edges by number. The paper has figures of one-accelerator even if the memory does not suffice.",
)


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """Every solver in its mode, and every bound in the mode free, on every available file."""
    return placement.cells(settings, "throughput", METHODS)


def report(settings: Settings, runs: list[Run]) -> Report:
    """Loads, throughputs relative to the dynamic program, and bounds."""
    every = placement.cases(settings, "throughput", runs)
    return placement.report(
        every,
        settings,
        [_section(title, cases, settings) for title, cases in placement.parts(every, PARTS)],
        DIFFERENCES,
        name="placement-throughput",
        title="Which split has the highest throughput?",
        about="The largest load of a device, the time per sample of a pipeline, on the paper's sixteen workloads: as "
        "published, and found here under the referee. Devices hold contiguous sets that follow one another (acyclic), "
        "contiguous sets, or any sets (free); a bound in a less restrictive mode holds in the others.",
    )


def _section(title: str, cases: Sequence[Case], settings: Settings) -> Section:
    loads = Table(
        "Largest load, and Table 1",
        [_with_gain(row, case) for case in cases for row in placement.comparison([case], settings, METHODS)],
        digits=2,
        note="Ideals: as counted by the published program. Gain: load of acyclic sets / load of any sets − 1.",
    )
    throughputs = Table(
        "Throughput relative to dp, and Table 2",
        [_throughput(row, case) for row, case in zip(loads.rows, _twice(cases), strict=True)],
        digits=2,
    )
    return placement.section(title, cases, settings, METHODS, [loads, throughputs], DRAWN, YARDSTICK)


def _twice(cases: Sequence[Case]) -> list[Case]:
    """The case of each row of `placement.comparison`."""
    return [case for case in cases for shown in (case.published, case.runs) if shown]


def _with_gain(row: Row, case: Case) -> Row:
    """A row of loads with the number of ideals and the gain of any sets."""
    instance, figures, *others = row.items()
    if row["figures"] == PAPER:
        ideals, gain = case.published["ideals"], ratio(case.printed("dp"), case.printed("ip-noncontiguous"))
    else:
        ideals, gain = _ideals(case), ratio(case.cost(*YARDSTICK), case.best(*placement.MODES))
    return dict(
        [instance, figures, ("ideals", ideals), *others, ("gain, %", None if gain is None else 100 * (gain - 1))]
    )


def _ideals(case: Case) -> int | None:
    problem = case.work.problem("acyclic")
    return None if problem is None else count_ideals(problem.instance)


def _throughput(row: Row, case: Case) -> Row:
    """Load of dp / load, for each method."""
    loads = {name: value for name, value in row.items() if name not in ("instance", "figures", "ideals", "gain, %")}
    best = loads.get("dp")
    found = {name: ratio(best, load) for name, load in loads.items()}
    if row["figures"] == PAPER and "one-accelerator" in found:
        found["one-accelerator"] = float(case.published["single"])
    return {"instance": row["instance"], "figures": row["figures"], **found}
