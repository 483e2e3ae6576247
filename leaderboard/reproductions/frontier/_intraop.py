"""The contest: costs and gaps compared with the best published ones, seconds to a good cost, cores kept busy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.claims import proves, quotient
from shardmark.instances import catalog
from shardmark.instances.catalog import Entry
from shardmark.leaderboard.report import Section, Table
from shardmark.leaderboard.reproductions import Cell, Run, Settings, entries_of
from shardmark.leaderboard.reproductions._frame import percent_above
from shardmark.leaderboard.reproductions.frontier._goals import Row, before, goal, greatest, percent
from shardmark.leaderboard.reproductions.intraop._curves import at_hand, settled

SOLVER = "cfn-native"
#: The largest instances: a small gap is their aim, not a proof.
LARGEST = ("contest-R", "contest-T")
#: Shorter runs do not tell how many cores the method keeps busy: most of their time is reading. In seconds.
BRIEF_S = 10.0


@dataclass(frozen=True)
class Case:
    """An instance with its run; None if its file is missing."""

    entry: Entry
    run: Run | None

    @property
    def name(self) -> str:
        """The name in tables."""
        return self.entry.id.removeprefix("contest-")

    @property
    def cost(self) -> int | None:
        """The least verified cost, exact."""
        return None if self.run is None or self.run.exact[0] is None else int(self.run.exact[0])

    @property
    def bound(self) -> Fraction | None:
        """The bound, exact; None if a verified cost contradicts it."""
        run = self.run
        return None if run is None or run.contradicted or run.exact[1] is None else Fraction(run.exact[1])

    @property
    def optimal(self) -> bool:
        """True if the run proves its cost optimal."""
        return self.cost is not None and self.bound is not None and proves(self.bound, self.cost, True)

    @property
    def gap(self) -> float | None:
        """The proven gap in percent."""
        return percent_above(self.cost, self.bound)

    @property
    def best_published(self) -> int | None:
        """The least published cost."""
        text = self.entry.published.get("best_cost")
        return None if text is None else int(text)

    @property
    def gap_published(self) -> float | None:
        """The gap between the best published cost and the greatest published bound, in percent."""
        text = self.entry.published.get("lower_bound")
        return None if text is None else percent_above(self.best_published, Fraction(text))

    @property
    def above(self) -> float | None:
        """The cost above the best published one in percent, negative if below."""
        theirs = self.best_published
        return 100 * quotient(self.cost - theirs, theirs) if self.cost is not None and theirs else None

    @property
    def busy(self) -> float | None:
        """CPU seconds in percent of those of the cores given; None for a short run."""
        run = self.run
        return 100 * run.cpu_s / (run.wall_s * run.cores) if run is not None and run.wall_s >= BRIEF_S else None


def plan(settings: Settings, folder: Path) -> list[Cell]:
    """The solver on every requested instance with a file; on embedded ones if none has."""
    return [
        Cell(Problem.of(entry, path), "solver", SOLVER, limit, settings.seed, entry.id)
        for entry, path in at_hand(settings)
        for limit in [min(entry.time_limit_s, settings.timeout)]
    ]


def _cases(settings: Settings, runs: Iterable[Run]) -> list[Case]:
    """The requested instances, and those that ran instead."""
    found = {run.cell.about: run for run in runs}
    names = dict.fromkeys([*(entry.id for entry in entries_of(settings.instances, "intraop")), *found])
    return [Case(catalog.find(name), found.get(name)) for name in names]


def goals(settings: Settings, runs: list[Run]) -> list[Row]:
    """What is to be reached over all instances of the contest that ran; others do not count."""
    here = [case for case in _cases(settings, runs) if case.run is not None and case.best_published is not None]
    small = [case for case in here if case.entry.id not in LARGEST]
    return [
        goal("intraop-cost", greatest([case.above for case in here]), papers=0.0 if here else None),
        goal("intraop-gap", greatest([case.gap for case in here]), papers=greatest([x.gap_published for x in here])),
        goal("intraop-optimal", percent(sum(case.optimal for case in small), len(small))),
        goal("intraop-cores", min((case.busy for case in here if case.busy is not None), default=None)),
    ]


def section(settings: Settings, runs: list[Run]) -> Section:
    """Costs, gaps and times, instance by instance."""
    every = [case for case in _cases(settings, runs) if case.run is not None or case.best_published is not None]
    gaps = Table(
        "Costs and proven gaps",
        [_gap(case) for case in every],
        note="Above: the cost / the best published cost − 1, negative if ours is better. Gaps: cost / bound − 1; the "
        "papers' is between the best published cost and the greatest published bound.",
    )
    times = Table(
        f"Seconds, and cores kept busy by {SOLVER}",
        [_times(case) for case in every if case.run is not None],
        digits=1,
        note="Within 1 %: time until the cost is within 1 % of the run's last cost. Proven: time of the last "
        f"improvement of a bound that proves the cost optimal. Cores: CPU time in percent of the time of all given "
        f"cores, for runs of {BRIEF_S:g} s and more.",
    )
    return Section("intraop: the contest's instances", _missing(every), [gaps, *([times] if runs else [])])


def _missing(every: list[Case]) -> list[str]:
    """Name the instances without a file, and say so if others ran instead."""
    missing = [case.name for case in every if case.run is None]
    words = [f"Files missing: {', '.join(missing)}. `shardmark fetch contest` downloads them."] if missing else []
    if any(case.entry.embedded and case.run is not None for case in every):
        words.append("Instances that come with the project ran instead, with their own time limits.")
    return words


def _gap(case: Case) -> Row:
    known = before("intraop", case.entry.id) or {}
    return {
        "instance": case.name,
        "cost before": int(known["cost"]) if "cost" in known else None,
        "cost": case.cost,
        "best published": case.best_published,
        "above, %": case.above,
        "gap before, %": known.get("gap"),
        "gap, %": case.gap,
        "papers' gap, %": case.gap_published,
    }


def _times(case: Case) -> Row:
    run = case.run
    assert run is not None
    return {
        "instance": case.name,
        "limit": run.cell.timeout_s,
        "first cost": run.costs[0][0] if run.costs else None,
        "within 1 %": settled(run.costs),
        "last cost": run.cost_s,
        "proven before": (before("intraop", case.entry.id) or {}).get("proof"),
        "proven": max(run.bound_s or 0.0, run.cost_s or 0.0) if case.optimal else None,
        "cores busy, %": case.busy,
    }
