"""The results of the public API: small frozen classes, shown as a table, and in a notebook with a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup

    from shardmark.harness.results.records import Bound, Incumbent

Cost = int | float
MOST_VIOLATIONS = 10  # that a table shows


@dataclass(frozen=True)
class RunResult:
    """One run of a solver or of a bound method, verified.

    ``instance``, ``track``, ``options``  the problem; ``options`` has only those that differ from their defaults
    ``method``       name of the solver or bound
    ``status``       "ok", or how the run failed: "timeout", "memory", "crash", "infeasible", "declined", ...
    ``reason``       one sentence about a status other than "ok", or about an early end; else empty
    ``feasible``     True if a feasible solution was reported; None if no solution was reported
    ``cost``         least verified cost; None without a feasible solution. An exact int for `intraop`, else a float
    ``lower_bound``  after `solve` the greatest known lower bound; after `bound` the method's own, or None
    ``bound_from``   source of ``lower_bound``: "instance" (its simple bound), "published", "records", or the method
    ``grade``        of ``lower_bound``: "checked" if a certificate proves it (or, if it proves the cost optimal, proves
                     that), "agreed" if methods that share no code do, else "claimed"; empty without a bound
    ``best_known``   least cost known before the run; ``best_from`` is its source, "published" or "records"
    ``known_bound``  greatest lower bound known before the run; ``known_from`` is its source
    ``contradiction``  a sentence if a known bound is above the cost, so that one of the two is wrong; else empty
    ``solution``     the solution with that cost, plain JSON as in the track's solution files
    ``incumbents``   every solution reported, in order: ``time_s`` (seconds), ``feasible`` and ``cost``, all verified
    ``bounds``       every lower bound reported, in order: ``time_s`` and ``value``
    ``wall_s``, ``cpu_s``, ``peak_mib``  wall and CPU time in seconds, peak memory in MiB, of all processes
    ``limits``       how each limit was enforced; empty if the run did not begin
    ``log``          text that the method printed
    ``certificate``  the certificate of a lower bound, plain JSON, if one was asked for and the method wrote one
    ``checked_bound``  the greatest bound that the certificate was found to prove; None if it proves none
    """

    instance: str
    track: str
    options: Mapping[str, str | int | float] = field(repr=False)
    method: str
    status: str
    reason: str
    feasible: bool | None
    cost: Cost | None
    lower_bound: Cost | None
    bound_from: str
    solution: Any = field(repr=False)
    incumbents: Sequence[Incumbent] = field(repr=False)
    bounds: Sequence[Bound] = field(repr=False)
    wall_s: float
    cpu_s: float
    peak_mib: float
    limits: str = field(repr=False)
    log: str = field(repr=False)
    best_known: Cost | None = None
    best_from: str = ""
    contradiction: str = field(default="", repr=False)
    known_bound: Cost | None = None
    known_from: str = ""
    certificate: Mapping[str, Any] | None = field(default=None, repr=False)
    checked_bound: Cost | None = field(default=None, repr=False)
    grade: str = "claimed"

    @property
    def gap(self) -> float | None:
        """cost / lower_bound - 1; 0.0 if the cost is proven optimal, None if either is missing or the bound is 0."""
        from shardmark.harness.results.claims import gap

        return gap(self.cost, self.lower_bound)

    @property
    def over_best(self) -> float | None:
        """cost / best_known - 1: negative if the cost is better; None if either is missing or best_known is 0."""
        from shardmark.harness.results.claims import excess

        return excess(self.cost, self.best_known)

    @property
    def optimal(self) -> bool | None:
        """True if the lower bound proves the cost optimal; None without a cost."""
        from shardmark.harness.results.claims import optimal

        return optimal(self.cost, self.lower_bound)

    def __str__(self) -> str:
        from shardmark.cli.terminal import pairs

        return pairs(self._facts())

    def _repr_html_(self) -> str:
        from shardmark.notebook import in_notebook

        own = self.lower_bound is None or self.bound_from == self.method
        rules = {} if own else {f"lower bound ({self.bound_from})": self.lower_bound}
        return in_notebook(self._facts(), self._chart(rules))

    def _facts(self) -> dict[str, str]:
        from shardmark.harness.results.records import decimal
        from shardmark.leaderboard.text import exact, seconds

        return {
            "instance": self.instance,
            "method": self.method,
            "status": self._ending,
            "cost": exact(decimal(self.cost)),
            **_facts_of_bound(self),
            "time": f"{seconds(self.wall_s)} s",
            "memory": f"{self.peak_mib:,.0f} MiB",
        }

    @property
    def _ending(self) -> str:
        return f"{self.status}: {self.reason}" if self.reason else self.status

    def _chart(self, rules: Mapping[str, Cost | None]) -> Markup:
        """Costs and bounds over time, and lines at values of reference."""
        from shardmark.notebook import chart

        known = {words: float(value) for words, value in rules.items() if value is not None}
        return chart(self.incumbents, self.bounds, self.wall_s, known)


@dataclass(frozen=True)
class CheckResult:
    """The verdict on a solution, and the greatest lower bound known.

    ``feasible``     True if it keeps every rule
    ``cost``         its exact cost; None if it is too malformed to have one
    ``violations``   a sentence for each broken rule, with place and amount
    ``facts``        further facts about the solution, by name
    ``run``          the run of the method that `check` was given; None if no method was given

    The other fields are those of `RunResult`.
    """

    instance: str
    track: str
    options: Mapping[str, str | int | float] = field(repr=False)
    feasible: bool
    cost: Cost | None
    violations: Sequence[str]
    facts: Mapping[str, Any]
    lower_bound: Cost
    bound_from: str
    run: RunResult | None = field(default=None, repr=False)
    best_known: Cost | None = None
    best_from: str = ""
    contradiction: str = field(default="", repr=False)
    grade: str = "claimed"

    @property
    def gap(self) -> float | None:
        """cost / lower_bound - 1 of a feasible solution; see `RunResult.gap`."""
        from shardmark.harness.results.claims import gap

        return gap(self.cost, self.lower_bound) if self.feasible else None

    @property
    def over_best(self) -> float | None:
        """cost / best_known - 1 of a feasible solution; see `RunResult.over_best`."""
        from shardmark.harness.results.claims import excess

        return excess(self.cost, self.best_known) if self.feasible else None

    @property
    def optimal(self) -> bool | None:
        """True if the lower bound proves the solution optimal; None if it is infeasible."""
        from shardmark.harness.results.claims import optimal

        return optimal(self.cost, self.lower_bound) if self.feasible else None

    def __str__(self) -> str:
        from shardmark.cli.terminal import pairs

        return pairs(self._facts())

    def _repr_html_(self) -> str:
        """The table, and the chart of the method's run with the cost of the solution across it."""
        from shardmark.notebook import in_notebook

        if self.run is None or self.cost is None:
            return in_notebook(self._facts())
        return in_notebook(self._facts(), self.run._chart({"this solution": self.cost}))

    def _facts(self) -> dict[str, str]:
        from shardmark.harness.results.records import decimal
        from shardmark.leaderboard.text import exact

        return {
            "instance": self.instance,
            "solution": "feasible" if self.feasible else "infeasible",
            **{f"violation {i + 1}": words for i, words in enumerate(self.violations[:MOST_VIOLATIONS])},
            "cost": exact(decimal(self.cost)),
            **_facts_of_bound(self),
            **({} if self.run is None else {"method": f"{self.run.method}: {self.run._ending}"}),
        }


def _facts_of_bound(found: RunResult | CheckResult) -> dict[str, str]:
    from shardmark.harness.results.records import decimal
    from shardmark.leaderboard.text import exact, gap

    whose = f" ({found.bound_from}, {found.grade})" if found.bound_from else ""
    bound = {"lower bound": f"{exact(decimal(found.lower_bound))}{whose}", "gap": gap(found.gap)}
    if found.best_known is None:
        return bound
    return bound | {"best known cost": f"{exact(decimal(found.best_known))} ({found.best_from})"}
