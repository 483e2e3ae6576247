"""Partitioners and schedulers of dataflow on 50 devices: Figure 3 of Mayer et al. 2017, with bounds and a search."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from harness.report import HERE, PAPER, Bars, Length, Report, Section, Table
from harness.reproduce import Cell, Run, failures, setting
from harness.reproduce._generated import written
from harness.run import Problem
from instances import InputError
from instances.generate import families

FILE = Path(__file__).with_name("scheduling2017.toml")
#: Of the paper, in the order of its figure; each solver is called by both, as in hash-fifo.
PARTITIONERS = ("hash", "batch-split", "critical-path", "mite", "dfs", "heft")
SCHEDULERS = ("fifo", "pct", "msr")
PAIRS = tuple(f"{partitioner}-{scheduler}" for partitioner in PARTITIONERS for scheduler in SCHEDULERS)
#: Seconds that a pair may take; it ends by itself after few of them.
PAIR_LIMIT_S = 120.0

Row = Mapping[str, Any]


@cache
def published() -> Mapping[str, Any]:
    """The file as it stands: ``papers runs devices best worst ratio networks``."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Settings:
    """What the reproduction is asked for."""

    seed: int = setting("count", "of the first run on every network; the others have those that follow")
    runs: int = setting("positive", "draws of weights and devices for every network, each run once by every method")
    networks: tuple[str, ...] = setting("names", "families of training graphs")
    solvers: tuple[str, ...] = setting("names", "solvers beside the paper's pairs")
    bounds: tuple[str, ...] = setting("names", "bounds that run")
    timeout: float = setting("seconds", "seconds that each of these solvers has; a pair ends by itself")
    bound_timeout: float = setting("seconds", "seconds that each bound has")


DEFAULTS = Settings(
    seed=0,
    runs=published()["runs"],
    networks=tuple(published()["networks"]),
    solvers=("search",),
    bounds=("critical-path", "load", "energetic"),
    timeout=60.0,
    bound_timeout=20.0,
)


@dataclass(frozen=True)
class Network:
    """What came of all draws of a network: makespans by method and draw, and the greatest bound of each draw."""

    name: str
    costs: Mapping[str, Mapping[int, float]]
    bounds: Mapping[int, float]

    def mean(self, method: str) -> float | None:
        """Of a method, over the draws that it solved."""
        costs = self.costs.get(method)
        return fmean(costs.values()) if costs else None

    def deviation(self, method: str) -> float:
        """The standard deviation of a sample; 0 for a single draw."""
        costs = list(self.costs[method].values())
        return stdev(costs) if len(costs) > 1 else 0.0

    def over(self, method: str, below: Mapping[int, float]) -> float | None:
        """The mean, over the draws that both have, of quotients of makespans and something below them."""
        quotients = [cost / below[i] for i, cost in self.costs.get(method, {}).items() if below.get(i)]
        return fmean(quotients) if quotients else None

    def solved(self, methods: Iterable[str]) -> list[str]:
        """Methods by their means, the least first; those without any are left out."""
        found = [(mean, method) for method in methods if (mean := self.mean(method)) is not None]
        return [method for _, method in sorted(found)]


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """Every pair, the other solvers and the bounds on every draw of every network; InputError for another family."""
    _refuse(settings.networks)
    methods = [("solver", name, PAIR_LIMIT_S) for name in PAIRS]
    methods += [("solver", name, settings.timeout) for name in settings.solvers]
    methods += [("bound", name, settings.bound_timeout) for name in settings.bounds]
    cells = []
    for network in settings.networks:
        for seed in range(settings.seed, settings.seed + settings.runs):
            instance = families()[network].build(seed, devices=published()["devices"])
            problem = Problem(instance.name, written(instance, folder), "scheduling")
            cells += [Cell(problem, kind, name, limit, seed, network) for kind, name, limit in methods]
    return cells


def _refuse(networks: Sequence[str]) -> None:
    """InputError for what is no family of training graphs."""
    for name in networks:
        if name not in published()["networks"]:
            expected = f"expected some of {', '.join(published()['networks'])}, found {name!r}"
            raise InputError("reproduce scheduling", "--networks", expected)


def report(settings: Settings, runs: list[Run]) -> Report:
    """Means and deviations of all pairs, the ratio of the worst and the best, what is proved and what is better."""
    every = [_network(name, runs) for name in settings.networks]
    last = settings.seed + settings.runs - 1
    limits = f"{settings.timeout:g} s for {', '.join(settings.solvers)}, {settings.bound_timeout:g} s for each bound"
    return Report(
        name="scheduling",
        title="Is it the critical path?",
        about="Makespans of one iteration of training on 50 devices of different speeds: six partitioners with three "
        "schedulers each, simulated by the referee, with lower bounds and a search beside them.",
        facts={
            "Sample": f"{', '.join(settings.networks)}; {settings.runs} draws of weights and devices each",
            "Seeds": str(settings.seed) if last == settings.seed else f"{settings.seed} to {last}",
            "Time limit": limits,
            "Published with": f"{published()['runs']} runs on {published()['devices']} devices, in a simulation",
        },
        sections=[_summary(every, settings), *(_section(network, settings) for network in every)],
        notes=[
            *failures(runs),
            "The paper's figure has no numbers: beside ours stands what its text says of the best and the worst pair.",
            "Its graphs were taken from programs that are not at hand; these have as many vertices, edges and "
            "colocated vertices. It does not say whether its ten runs share their weights; here each run draws anew.",
        ],
        sources=tuple((words, address) for words, address in published()["papers"]),
    )


def _network(name: str, runs: Iterable[Run]) -> Network:
    """What came of the runs on a network; a bound that a cost contradicts counts nowhere."""
    costs: dict[str, dict[int, float]] = {}
    bounds: dict[int, float] = {}
    for run in runs:
        if run.cell.about == name and run.cell.kind == "solver" and run.cost is not None:
            costs.setdefault(run.cell.method, {})[run.cell.seed] = run.cost
        if run.cell.about == name and run.bound is not None:
            bounds[run.cell.seed] = max(run.bound, bounds.get(run.cell.seed, 0.0))
    return Network(name, costs, bounds)


# ---------------------------------------------------------------- over all networks


def _summary(every: Sequence[Network], settings: Settings) -> Section:
    ratios = Table(
        "The worst pair beside the best",
        [row for network in every for row in (_printed(network), _found(network)) if row],
        digits=2,
        note="Ratios are those of means. The last column: whether critical path + PCT is the best pair, or how far "
        "from it.",
    )
    beyond = [_beyond(network, name) for network in every for name in settings.solvers if network.mean(name)]
    better = Table(
        "What the paper lacked: a search, and what is proved",
        beyond,
        digits=2,
        note="Means over the draws. Gain: of the mean over that of critical path + PCT. Beaten: draws on which it is "
        "below all pairs.",
    )
    told = [_told(network) for network in every if network.solved(PAIRS)]
    return Section("All networks", [*told, *_told_beyond(beyond)], [ratios, better])


def _told_beyond(rows: Sequence[Row]) -> list[str]:
    """How much better each solver is than the paper's, on all networks together."""
    words = []
    for name in dict.fromkeys(row["solver"] for row in rows):
        mine = [row for row in rows if row["solver"] == name]
        gains = [row["gain, %"] for row in mine if row["gain, %"] is not None]
        beaten, draws = (sum(row[key] for row in mine) for key in ("beaten", "draws"))
        gain = f", and {fmean(gains):.1f} % below {published()['best']} in the mean of the networks" if gains else ""
        words.append(f"{name} is below every pair on {beaten} of {draws} draws{gain}.")
    return words


def _printed(network: Network) -> Row:
    best, worst = published()["best"], published()["worst"]
    ratio = published()["ratio"]
    return {
        "network": network.name,
        "figures": PAPER,
        "best pair": best,
        "worst pair": worst,
        "worst / best": ratio,
        f"{worst} / {best}": ratio,
        f"{best} / best": 1.0,
    }


def _found(network: Network) -> Row:
    pairs = network.solved(PAIRS)
    if not pairs:
        return {}
    best, worst = published()["best"], published()["worst"]
    return {
        "network": network.name,
        "figures": HERE,
        "best pair": pairs[0],
        "worst pair": pairs[-1],
        "worst / best": _ratio(network.mean(pairs[-1]), network.mean(pairs[0])),
        f"{worst} / {best}": _ratio(network.mean(worst), network.mean(best)),
        f"{best} / best": _ratio(network.mean(best), network.mean(pairs[0])),
    }


def _told(network: Network) -> str:
    """The paper's finding, as it turns out here."""
    best, worst = published()["best"], published()["worst"]
    pairs = network.solved(PAIRS)
    ratio, behind = (_ratio(network.mean(x), network.mean(y)) for x, y in ((worst, best), (best, pairs[0])))
    words = f"{network.name}: {pairs[0]} is the best pair and {pairs[-1]} the worst"
    if ratio is not None and behind is not None:
        words += f"; {worst} takes {ratio:.2f} times as long as {best}, up to {published()['ratio']:g} in the paper"
        words += f", and {best} {behind:.2f} times as long as the best pair"
    return f"{words}."


def _beyond(network: Network, name: str) -> Row:
    pairs = network.solved(PAIRS)
    known = [network.costs[pair] for pair in pairs]
    beaten = [i for i, cost in network.costs[name].items() if all(cost < costs.get(i, cost + 1) for costs in known)]
    before = network.mean(published()["best"])
    mean = network.mean(name)
    return {
        "network": network.name,
        "solver": name,
        "mean": mean,
        "deviation": network.deviation(name),
        "gain, %": None if before is None or mean is None else 100 * (1 - mean / before),
        "beaten": len(beaten),
        "draws": len(network.costs[name]),
        "bound": fmean(network.bounds.values()) if network.bounds else None,
        "mean of cost / bound": network.over(name, network.bounds),
    }


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


# ---------------------------------------------------------------- one network


def _section(network: Network, settings: Settings) -> Section:
    vertices, edges = published()["networks"][network.name]
    methods = [name for name in (*PAIRS, *settings.solvers) if network.costs.get(name)]
    table = Table(
        "Makespans, beside Figure 3",
        [_row(network, name) for name in methods],
        digits=2,
        note="Deviation: the standard deviation of the draws. The last columns: means of quotients draw by draw.",
    )
    bars = Bars(
        f"One iteration of {network.name}",
        "Means of all draws; the thin lines are standard deviations.",
        "makespan",
        [Length(name, network.mean(name) or 0.0, network.deviation(name), _colour(name)) for name in methods],
    )
    words = f"{vertices:,} vertices and {edges:,} edges on {published()['devices']} devices."
    return Section(network.name, [words], [table], [bars] if methods else [])


def _row(network: Network, name: str) -> Row:
    partitioner, _, scheduler = name.rpartition("-") if name in PAIRS else (name, "", "")
    costs = network.costs[name]
    pairs = network.solved(PAIRS)
    return {
        "partitioner": partitioner,
        "scheduler": scheduler or "–",
        "mean": network.mean(name),
        "deviation": network.deviation(name),
        "least": min(costs.values()),
        "greatest": max(costs.values()),
        "draws": len(costs),
        "/ best pair": network.over(name, network.costs[pairs[0]]) if pairs else None,
        "/ bound": network.over(name, network.bounds),
    }


def _colour(name: str) -> int:
    """One for each scheduler, another one for what is not of the paper."""
    return 1 + SCHEDULERS.index(name.rpartition("-")[2]) if name in PAIRS else 4
