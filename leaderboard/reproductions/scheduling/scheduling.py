"""Partitioners and schedulers of dataflow on 50 devices: Figure 3 of Mayer et al. 2017, with bounds and a search."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from harness.campaign.problems import Problem
from instances import InputError
from instances.generate import families
from leaderboard.drawings import schedule_layout
from leaderboard.report import HERE, PAPER, Bars, Length, Report, Schedule, Section, Table
from leaderboard.reproductions import Cell, Run, Settings, _frame, failures
from leaderboard.reproductions._frame import ratio, written

FILE = Path(__file__).with_name("scheduling2017.toml")
#: The paper's methods in the order of its figure; each solver is named by both, as in hash-fifo.
PARTITIONERS = ("hash", "batch-split", "critical-path", "mite", "dfs", "heft")
SCHEDULERS = ("fifo", "pct", "msr")
PAIRS = tuple(f"{partitioner}-{scheduler}" for partitioner in PARTITIONERS for scheduler in SCHEDULERS)
#: Time limit of a pair; it ends by itself after a few seconds.
PAIR_LIMIT_S = 120.0
#: A pair counts as good as the best if its mean is at most this many times as large.
NEAR = 1.05

Row = Mapping[str, Any]


@cache
def published() -> Mapping[str, Any]:
    """The content of the file: ``papers runs devices best worst ratio networks``."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


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
    """Outcomes of all draws of one network: makespans by method and draw, and the greatest bound per draw."""

    name: str
    costs: Mapping[str, Mapping[int, float]]
    bounds: Mapping[int, float]

    def mean(self, method: str) -> float | None:
        """The mean makespan of a method over the draws that it solved."""
        costs = self.costs.get(method)
        return fmean(costs.values()) if costs else None

    def deviation(self, method: str) -> float | None:
        """The sample standard deviation; None for a single draw."""
        costs = list(self.costs[method].values())
        return stdev(costs) if len(costs) > 1 else None

    def over(self, method: str, below: Mapping[int, float]) -> float | None:
        """The mean of makespan / ``below`` over the draws that have both."""
        quotients = [cost / below[i] for i, cost in self.costs.get(method, {}).items() if below.get(i)]
        return fmean(quotients) if quotients else None

    @property
    def least(self) -> float | None:
        """The least mean of a pair."""
        return min((mean for pair in PAIRS if (mean := self.mean(pair)) is not None), default=None)

    @property
    def slowest(self) -> str:
        """The partitioner whose mean over its pairs is the greatest."""
        means = {
            name: [mean for scheduler in SCHEDULERS if (mean := self.mean(f"{name}-{scheduler}")) is not None]
            for name in PARTITIONERS
        }
        return max((name for name in means if means[name]), key=lambda name: fmean(means[name]), default="–")

    def solved(self, methods: Iterable[str]) -> list[str]:
        """Methods sorted by mean makespan; methods without any are left out."""
        found = [(mean, method) for method in methods if (mean := self.mean(method)) is not None]
        return [method for _, method in sorted(found)]


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """Every pair, the other solvers and the bounds on every draw of every network; InputError for another family."""
    _check_networks(settings.networks)
    methods = [("solver", name, PAIR_LIMIT_S) for name in PAIRS]
    methods += [("solver", name, settings.timeout) for name in _others(settings)]
    methods += [("bound", name, settings.bound_timeout) for name in settings.bounds]
    cells = []
    for network in settings.networks:
        for seed in range(settings.seed, settings.seed + settings.runs):
            instance = families()[network].build(seed, devices=published()["devices"])
            problem = Problem(instance.name, written(instance, folder), "scheduling")
            first = seed == settings.seed  # a drawing needs its solution
            cells += [Cell(problem, kind, name, limit, seed, network, first) for kind, name, limit in methods]
    return cells


def _others(settings: Settings) -> list[str]:
    """Solvers other than the paper's pairs, without repetition."""
    return [name for name in dict.fromkeys(settings.solvers) if name not in PAIRS]


def _check_networks(networks: Sequence[str]) -> None:
    """Raise InputError for an unknown network, a repeated one, or none at all."""
    if not networks or len(set(networks)) < len(networks):
        expected = "expected at least one network, none twice"
        raise InputError("reproduce scheduling", "--networks", f"{expected}, found {', '.join(networks) or 'none'}")
    for name in networks:
        if name not in published()["networks"]:
            expected = f"expected some of {', '.join(published()['networks'])}, found {name!r}"
            raise InputError("reproduce scheduling", "--networks", expected)


def report(settings: Settings, runs: list[Run]) -> Report:
    """Means and deviations of all pairs, worst / best, bounds, and better schedules."""
    every = [_network(name, runs) for name in settings.networks]
    limits = [f"{settings.timeout:g} s for {', '.join(others)}"] if (others := _others(settings)) else []
    limits += [f"{settings.bound_timeout:g} s for each bound"] if settings.bounds else []
    return _frame.report(
        settings,
        [
            _findings(every, settings),
            *([_improvements(every, settings)] if _others(settings) else []),
            *(_section(network, settings) for network in every),
            *_drawn(every, runs, settings),
        ],
        name="scheduling",
        title="Is it the critical path?",
        about="Makespans of one iteration of training on 50 devices of different speeds: six partitioners with three "
        "schedulers each, simulated by the referee, with lower bounds and a search beside them.",
        sample=f"{', '.join(settings.networks)}; {_draws(settings)} of weights and devices each",
        seeds=settings.runs,
        limits=", ".join(limits) or "never reached, as pairs end by themselves",
        made=f"{published()['runs']} runs on {published()['devices']} devices, in a simulation",
        notes=[
            *failures(runs),
            "The paper's figure has no numbers: its text on the best and the worst pair is compared instead. It "
            "calls its error bars standard mean deviations; ours are sample standard deviations.",
            "Its graphs are from programs that are not available; ours have the same numbers of vertices, edges "
            "and colocated vertices. It does not say if its ten runs share weights; here each run draws new ones.",
        ],
        sources=published()["papers"],
    )


def _network(name: str, runs: Iterable[Run]) -> Network:
    """Collect the runs on a network; bounds that a cost contradicts are dropped."""
    costs: dict[str, dict[int, float]] = {}
    bounds: dict[int, float] = {}
    for run in runs:
        if run.cell.about == name and run.cell.kind == "solver" and run.cost is not None:
            costs.setdefault(run.cell.method, {})[run.cell.seed] = run.cost
        if run.cell.about == name and run.bound is not None:
            bounds[run.cell.seed] = max(run.bound, bounds.get(run.cell.seed, 0.0))
    return Network(name, costs, bounds)


def _findings(every: Sequence[Network], settings: Settings) -> Section:
    """Tabulate if the paper's findings hold here, and by how much."""
    solved = [network for network in every if network.solved(PAIRS)]
    ratios = Table(
        "The worst pair beside the best",
        [row for network in solved for row in _beside(network)],
        digits=2,
        note="Ratios of means. Last column: 1 if critical path + PCT is the best pair, otherwise how many times as "
        "long it takes.",
    )
    held = Table(
        "The paper's findings, and results here",
        _claims(solved) if solved else [],
        note=f"In brackets: how many times as long {published()['best']} takes; the finding holds up to {NEAR:g}. A "
        "partitioner is rated by the mean of its pairs.",
    )
    return Section("Does it hold?", _told(solved, settings) if solved else [], [held, ratios])


def _told(solved: Sequence[Network], settings: Settings) -> list[str]:
    """The answer in plain words."""
    best, worst = published()["best"], published()["worst"]
    far = [x for network in solved if (x := ratio(network.mean(best), network.least)) is not None]
    if not far:
        return []
    on = f"on {_draws(settings)}{' of each network' if len(solved) > 1 else ''}"
    if max(far) <= NEAR:
        words = [f"The paper's finding holds {on}: {best} is the best pair, or within {100 * (NEAR - 1):.0f} % of it."]
    else:
        firsts = ", ".join(dict.fromkeys(network.solved(PAIRS)[0] for network in solved))
        words = [
            f"The paper's finding does not hold {on}: the best pair is {firsts}, and {best} takes {_range(far)} times "
            "as long."
        ]
    beside = [x for network in solved if (x := ratio(network.mean(worst), network.mean(best))) is not None]
    slow = [x for network in solved if (x := ratio(network.mean(worst), network.least)) is not None]
    if beside:
        words.append(
            f"{worst} takes {_range(beside)} times as long as {best} (up to {published()['ratio']:g} in the paper), "
            f"and {_range(slow)} times as long as the best pair."
        )
    return words


def _claims(solved: Sequence[Network]) -> list[Row]:
    """Compare each of the paper's findings with every network here."""
    best, worst, greatest = published()["best"], published()["worst"], published()["ratio"]
    behind = [ratio(network.mean(best), network.least) for network in solved]
    firsts = [f"{network.solved(PAIRS)[0]} ({_shown(far)})" for network, far in zip(solved, behind, strict=True)]
    pairs, families = [network.solved(PAIRS)[-1] for network in solved], [network.slowest for network in solved]
    family = worst.rpartition("-")[0]
    apart = [ratio(network.mean(worst), network.mean(best)) for network in solved]
    rows = [
        (f"best pair: {best}", firsts, _verdict([far is not None and far <= NEAR for far in behind])),
        (f"worst pair: {worst}", pairs, _verdict([name == worst for name in pairs])),
        (f"worst partitioner: {family}", families, _verdict([name == family for name in families])),
        (f"greatest {worst} / {best}: about {greatest:g}", map(_shown, apart), _about(apart, greatest)),
    ]
    names = [network.name for network in solved]
    return [
        {"the paper": words, **dict(zip(names, found, strict=True)), "holds": verdict} for words, found, verdict in rows
    ]


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _verdict(holds: Sequence[bool]) -> str:
    """Words for the number of networks on which a finding holds."""
    return "yes" if all(holds) else "no" if not any(holds) else f"on {sum(holds)} of {len(holds)}"


def _about(values: Sequence[float | None], stated: float) -> str:
    """Compare the largest of some values with the published one."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    if max(known) < stated / NEAR:
        return "no, it is less"
    return "no, it is more" if max(known) > stated * NEAR else "yes"


def _range(values: Sequence[float]) -> str:
    """The range of values, with two digits after the point."""
    low, high = f"{min(values):.2f}", f"{max(values):.2f}"
    return low if low == high else f"{low} to {high}"


def _improvements(every: Sequence[Network], settings: Settings) -> Section:
    """Describe what beats the paper's best method, and its proven distance to the optimum."""
    beyond = [_beyond(network, name) for network in every for name in _others(settings) if network.mean(name)]
    better = Table(
        "Better schedules, and bounds",
        beyond,
        digits=2,
        note="Means over the draws. Gain: relative to the mean of critical path + PCT. Beaten: draws on which it beats "
        "all pairs. Cost / bound: an optimum is at most this many times shorter.",
    )
    return Section("Beyond the paper: a search, and bounds", _told_beyond(beyond), [better])


def _told_beyond(rows: Sequence[Row]) -> list[str]:
    """Return the improvement of each solver over the paper's methods on all networks together."""
    words = []
    for name in dict.fromkeys(row["solver"] for row in rows):
        mine = [row for row in rows if row["solver"] == name]
        gains = [row["gain, %"] for row in mine if row["gain, %"] is not None]
        ratios = [row["cost / bound"] for row in mine if row["cost / bound"] is not None]
        beaten, draws = (sum(row[key] for row in mine) for key in ("beaten", "draws"))
        gain = f", and {_off(fmean(gains))} {published()['best']} on average over the networks" if gains else ""
        certified = (
            f" Bounds certify that it takes at most {_range(ratios)} times as long as an optimum, on average over a "
            "network's draws."
            if ratios
            else ""
        )
        words.append(f"{name} beats every pair on {beaten} of {draws} draws{gain}.{certified}")
    return words


def _off(gain: float) -> str:
    """Format a difference in percent as below or above."""
    return f"{abs(gain):.1f} % {'below' if gain >= 0 else 'above'}"


def _beside(network: Network) -> list[Row]:
    """Two rows with the ratio of the worst and the best pair, the paper's and ours."""
    best, worst, greatest = published()["best"], published()["worst"], published()["ratio"]
    pairs = network.solved(PAIRS)
    span, far = (ratio(network.mean(pair), network.least) for pair in (pairs[-1], best))
    apart = ratio(network.mean(worst), network.mean(best))
    figures = {
        PAPER: (best, worst, greatest, greatest, 1.0),
        HERE: (pairs[0], pairs[-1], span, apart, far),
    }
    columns = ("best pair", "worst pair", "worst / best", f"{worst} / {best}", f"{best} / best")
    return [
        {"network": network.name, "figures": whose, **dict(zip(columns, row, strict=True))}
        for whose, row in figures.items()
    ]


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
        "cost / bound": network.over(name, network.bounds),
    }


def _section(network: Network, settings: Settings) -> Section:
    vertices, edges = published()["networks"][network.name]
    methods = [name for name in (*PAIRS, *_others(settings)) if network.costs.get(name)]
    table = Table(
        "Makespans, as in Figure 3",
        [_row(network, name) for name in methods],
        digits=2,
        note="Deviation: the standard deviation over the draws. Last columns: means of the ratios of each draw.",
    )
    bound = fmean(network.bounds.values()) if network.bounds else None
    parts = [
        f"Means of {_draws(settings)}",
        *(["the line through a dot is one standard deviation to either side"] if settings.runs > 1 else []),
        *(["the dashed line is the mean of the greatest lower bounds"] if bound is not None else []),
    ]
    bars = Bars(
        f"One iteration of {network.name}",
        "; ".join(parts) + ".",
        "mean makespan, in the paper's units of time",
        [Length(name, network.mean(name) or 0.0, network.deviation(name) or 0.0, _colour(name)) for name in methods],
        bound,
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


def _draws(settings: Settings) -> str:
    return f"{settings.runs} draw{'' if settings.runs == 1 else 's'}"


def _colour(name: str) -> int:
    """One colour per scheduler, another for methods that are not the paper's."""
    return 1 + SCHEDULERS.index(name.rpartition("-")[2]) if name in PAIRS else 4


def _drawn(every: Sequence[Network], runs: Sequence[Run], settings: Settings) -> list[Section]:
    """The schedules of critical path + PCT and of the best method for the first draw of the smallest network."""
    sizes = {network.name: published()["networks"][network.name][0] for network in every}
    first = [
        run for run in runs if run.solution is not None and run.cost is not None and run.cell.seed == settings.seed
    ]
    name = min(sizes, key=sizes.__getitem__)
    costs = {run.cell.method: (run.cost or 0.0, run) for run in first if run.cell.about == name}
    if published()["best"] not in costs:
        return []
    until, theirs = costs[published()["best"]]
    _, ours = min(costs.values(), key=lambda found: found[0])
    bound = next((network.bounds.get(settings.seed) for network in every if network.name == name), None)
    pictures = [_schedule(run, bound, until) for run in ([theirs] if ours is theirs else [theirs, ours])]
    spent = " and ".join(f"{100 * _moving(x):.0f} % of the makespan of {x.title}" for x in pictures)
    words = f"Transfers on the critical chain take {spent}, on the draw with seed {settings.seed}."
    return [Section(f"Where the time goes: schedules of {name}", [words], [], pictures)]


def _moving(schedule: Schedule) -> float:
    """The share of the makespan that transfers on the critical chain take."""
    running = sum(schedule.finish[link.vertex] - schedule.start[link.vertex] for link in schedule.chain)
    return 1 - running / (max(schedule.finish) or 1.0)


def _schedule(run: Run, bound: float | None, until: float) -> Schedule:
    found = schedule_layout.drawing(
        run.cell.problem.instance, run.solution, bound=bound, until=until, title=run.cell.method
    )
    if found is None:
        raise ValueError(f"{run.cell.method}: a stored solution that was verified breaks a rule")
    return found
