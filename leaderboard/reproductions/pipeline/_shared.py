"""Common parts of the reproductions of Archer et al. 2024: sample of graphs, published figures, geometric means."""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from shardmark.harness.campaign.problems import Problem
from shardmark.instances import InputError
from shardmark.instances.generate import families
from shardmark.instances.generate.portable_random import Draws
from shardmark.leaderboard.report import HERE, PAPER, Report, Section
from shardmark.leaderboard.reproductions import Cell, Run, Settings, _frame, failures
from shardmark.leaderboard.reproductions._frame import written

FILE = Path(__file__).with_name("archer2024.toml")
STAGES = (2, 4, 8, 16, 32, 64)
#: The paper's searches and ours; its hierarchy of bounds, cheapest first; and ours.
ORDERINGS = ("mla", "mla-weighted", "random-1", "random-100", "random-10000", "brkga-100", "brkga-10000")
SEARCHES = ("brkga-10000", "annealing")
HIERARCHY = ("simple", "bottleneck", "bottleneck-guess", "exact")
OURS = ("anchored", "reweighted")

#: Costs and bounds within this relative distance count as equal: programs are solved up to tolerances.
SAME = 1e-5

RANDOM = ("erdos-renyi", "barabasi-albert", "watts-strogatz", "block-model")
NODES = (50, 200)
#: Families of model graphs, with the parameter that is drawn for their size, and its range.
MODELS: tuple[tuple[str, str, int, int, dict[str, int]], ...] = (
    ("sequence-to-sequence", "steps", 4, 14, {}),
    ("u-net", "levels", 3, 6, {}),
    ("transformer", "layers", 2, 8, {"head_groups": 4}),
    ("mixture-of-experts", "layers", 1, 4, {}),
    ("residual-network", "pixels", 112, 448, {}),
)
MAX_GRAPHS = 1000  # of a kind in a sample

GROUPS = {
    "regal": "REGAL-style random graphs",
    "models": "Model graphs",
}
#: Relation of each group's sample to the paper's graphs.
STANDS_FOR = {
    "regal": "The paper has the 1000 graphs of REGAL, filtered for hardness; ours follow what is known about them.",
    "models": "The paper has 369 production models whose costs it cannot publish; ours are networks whose costs are "
    "estimated from shapes, so only trends can be compared.",
}


@dataclass(frozen=True)
class Case:
    """A graph of a group and a number of stages."""

    group: str
    graph: str
    nodes: int
    stages: int


Cases = dict[Case, dict[str, Run]]
Row = dict[str, Any]


def sample(settings: Settings, folder: Path) -> list[tuple[Case, Problem]]:
    """The graphs of a sample, written to the folder, each with every number of stages; grouped by graph.

    Graph i of sample s has the seed 1000 s + i. The name of a file has its content's digest, so that samples
    do not overwrite each other's files. Raises InputError for a sample without graphs or with too many, and for an
    existing file with other content.
    """
    count = (settings.graphs or 0) + (settings.models or 0)
    if not count or max(settings.graphs or 0, settings.models or 0) > MAX_GRAPHS:
        found = f"{settings.graphs or 0} and {settings.models or 0}"
        expected = f"expected at least 1 graph in all, and at most {MAX_GRAPHS} of a kind, found {found}"
        raise InputError("reproduce", "--graphs and --models", expected)
    made = [("regal", graph) for graph in _random_graphs(settings)] + [("models", g) for g in _model_graphs(settings)]
    cases = []
    for group, graph in made:
        path = written(graph, folder)
        for k in settings.stages:
            problem = Problem(f"{graph.name}-k{k}", path, graph.track, {"stages": k})
            cases.append((Case(group, graph.name, graph.nodes, k), problem))
    return cases


def _random_graphs(settings: Settings) -> Iterator[Any]:
    low, high = NODES
    sizes = Draws(settings.seed).integers(low, high + 1, settings.graphs or 0).tolist()
    costs = settings.costs_from or "all"
    for i, nodes in enumerate(sizes):
        yield families()[RANDOM[i % len(RANDOM)]].build(MAX_GRAPHS * settings.seed + i, nodes=nodes, costs_from=costs)


def _model_graphs(settings: Settings) -> Iterator[Any]:
    for i, place in enumerate(Draws(settings.seed).uniform(settings.models or 0).tolist()):
        family, parameter, low, high, more = MODELS[i % len(MODELS)]
        size = low + int(place * (high + 1 - low))
        yield families()[family].build(MAX_GRAPHS * settings.seed + i, **{parameter: size}, **more)


def cells(settings: Settings, folder: Path, searches: Sequence[str], bounds: Sequence[str]) -> list[Cell]:
    """Every search and every bound on every case of the sample."""
    kinds = [("solver", searches, settings.timeout), ("bound", bounds, settings.bound_timeout)]
    return [
        Cell(problem, kind, method, limit, settings.seed, case)
        for case, problem in sample(settings, folder)
        for kind, methods, limit in kinds
        if limit is not None
        for method in methods
    ]


def ladder(settings: Settings) -> tuple[str, ...]:
    """The paper's bounds, then the others requested."""
    return tuple(dict.fromkeys((*HIERARCHY, *(settings.bounds or ()))))


def by_case(runs: Iterable[Run]) -> Cases:
    """Runs by case and method."""
    return _frame.grouped((run.cell.about, run.cell.method, run) for run in runs)


def groups(cases: Cases) -> list[tuple[str, Cases]]:
    """The groups that have cases, with their cases."""
    found = [(group, {case: runs for case, runs in cases.items() if case.group == group}) for group in GROUPS]
    return [(group, of_group) for group, of_group in found if of_group]


def report(settings: Settings, cases: Cases, sections: Sequence[Section], notes: Sequence[str], **words: Any) -> Report:
    """A report with the parts that all on this paper share; ``words`` has its name, title and subject."""
    return _frame.report(
        settings,
        sections,
        sample="; ".join(_sizes(group, of_group, settings) for group, of_group in groups(cases)),
        limits=_frame.limits(settings, f"{settings.timeout:g} s for each search"),
        made="" if settings.bound_timeout is None else published()["setup"],
        notes=notes,
        sources=published()["papers"],
        **words,
    )


def _sizes(group: str, cases: Cases, settings: Settings) -> str:
    """Describe the graphs of a group: number, sizes, families."""
    nodes = {case.graph: case.nodes for case in cases}
    kinds = sorted({graph.rsplit("-", 1)[0] for graph in nodes})
    what = "REGAL-style graph" if group == "regal" else "model graph"
    count = f"{len(nodes)} {what}{'' if len(nodes) == 1 else 's'}"
    least, most = min(nodes.values()), max(nodes.values())
    size = f"{least} nodes" if least == most else f"{least} to {most} nodes"
    return f"{count} of {size} ({', '.join(kinds)}){'' if group == 'models' else f', {_costs(settings)}'}"


def _costs(settings: Settings) -> str:
    """Describe the distribution of the costs of random graphs."""
    whose = {"all": "of all tensors", "own": "of its own tensors"}[settings.costs_from or "all"]
    return f"a node's cost includes a random fraction {whose}"


def remarks(runs: Iterable[Run], left_out: Iterable[Case]) -> list[str]:
    """List failures, and the cases that they exclude from the means."""
    missing = [f"{case.graph} with k = {case.stages}" for case in left_out]
    words = f"Left out of all means, as a figure is missing or 0: {', '.join(missing)}."
    return [*failures(runs), *([words] if missing else [])]


@cache
def published() -> Mapping[str, Any]:
    """The paper's figures."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def printed(kind: str, group: str, method: str, stages: int) -> float | None:
    """The published figure of a method; None without one."""
    row = published()[kind][group].get(method)
    columns: list[int] = published()["stages"]
    return row[columns.index(stages)] if row and stages in columns else None


def where(kind: str, group: str) -> str:
    """The table with the published figures of a group."""
    return str(published()[kind][group]["table"])


def geometric_mean(values: Sequence[float]) -> float | None:
    """Geometric mean, 0 if a value is 0 or less; None without values."""
    if not values:
        return None
    return statistics.geometric_mean(values) if min(values) > 0 else 0.0


def row(label: str, name: str, whose: str, settings: Settings, figure: Callable[[int], Any]) -> Row:
    """A row of a table with a column for each number of stages."""
    return {label: name, "figures": whose, **{f"k={k}": figure(k) for k in settings.stages}}


def comparison(
    label: str, methods: Sequence[str], kind: str, group: str, settings: Settings, ours: Callable[[str, int], Any]
) -> list[Row]:
    """Our row for each method, followed by the published one, if any."""
    rows = []
    for method in methods:
        rows.append(row(label, method, HERE, settings, partial(ours, method)))
        if method in published()[kind][group]:
            rows.append(row(label, method, PAPER, settings, partial(printed, kind, group, method)))
    return rows
