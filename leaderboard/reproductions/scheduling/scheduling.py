"""Partitioners and schedulers for dataflow graphs on 50 devices: Figure 3 of Mayer et al. 2017, bounds and a search."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from shardmark.harness.campaign.problems import Problem
from shardmark.instances import InputError
from shardmark.instances.generate import families
from shardmark.leaderboard.drawings import schedule_layout
from shardmark.leaderboard.report import Bars, Length, Report, Schedule, Section, Table
from shardmark.leaderboard.reproductions import Cell, Run, Settings, _frame, failures
from shardmark.leaderboard.reproductions._frame import written
from shardmark.leaderboard.reproductions.scheduling._findings import findings
from shardmark.leaderboard.reproductions.scheduling._networks import (
    PAIRS,
    SCHEDULERS,
    Network,
    Row,
    collected,
    draws,
    published,
    spread,
)

#: Time limit of a pair; it ends by itself after a few seconds.
PAIR_LIMIT_S = 120.0

DEFAULTS = Settings(
    seed=0,
    runs=published()["runs"],
    networks=tuple(published()["networks"]),
    solvers=("search",),
    bounds=("critical-path", "load", "energetic"),
    timeout=60.0,
    bound_timeout=20.0,
)


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
    every = [collected(name, runs) for name in settings.networks]
    limits = [f"{settings.timeout:g} s for {', '.join(others)}"] if (others := _others(settings)) else []
    limits += [f"{settings.bound_timeout:g} s for each bound"] if settings.bounds else []
    return _frame.report(
        settings,
        [
            findings(every, settings),
            *([_improvements(every, settings)] if _others(settings) else []),
            *(_section(network, settings) for network in every),
            *_drawn(every, runs, settings),
        ],
        name="scheduling",
        title="Is it the critical path?",
        about="Makespans of one iteration of training on 50 devices of different speeds: six partitioners with three "
        "schedulers each, simulated by the referee, with lower bounds and a search to compare.",
        sample=f"{', '.join(settings.networks)}; {draws(settings)} of weights and devices each",
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


def _improvements(every: Sequence[Network], settings: Settings) -> Section:
    """Describe what beats the paper's best method, and its proven distance to the optimum."""
    beyond = [_beyond(network, name) for network in every for name in _others(settings) if network.mean(name)]
    better = Table(
        "Better schedules, and bounds",
        beyond,
        digits=2,
        note="Means over the draws. Gain: relative to the mean of critical path + PCT. Beaten: number of draws on "
        "which the method beats all pairs. Cost / bound: an optimum is at most this many times shorter.",
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
            f" Bounds certify that it takes at most {spread(ratios)} times as long as an optimum, on average over a "
            "network's draws."
            if ratios
            else ""
        )
        words.append(f"{name} beats every pair on {beaten} of {draws} draws{gain}.{certified}")
    return words


def _off(gain: float) -> str:
    """Format a difference in percent as below or above."""
    return f"{abs(gain):.1f} % {'below' if gain >= 0 else 'above'}"


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
        f"Means of {draws(settings)}",
        *(["the line through a dot extends one standard deviation to either side"] if settings.runs > 1 else []),
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
        raise ValueError(f"{run.cell.method}: a stored solution that passed verification now breaks a rule")
    return found
