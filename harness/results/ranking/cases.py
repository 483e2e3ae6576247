"""Exact comparison of all claims about an instance: costs, lower bounds, published values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from typing import Any

import polars as pl

from harness.results import published
from harness.results.claims import TOLERANCE, contradicts, proves, quotient, relative_gap
from harness.results.ranking.frames import DIVISION, frame

#: Author of a value of the catalog that was not published, and how the source of such a value begins.
KNOWN, UNPUBLISHED = "known beforehand", ("enumeration", "ours")


@dataclass(frozen=True)
class _Claim:
    """A stated cost or lower bound: its exact value, its text, and its author.

    ``run`` and ``seed`` are None for a published value.
    """

    value: Fraction
    text: str
    by: str
    run: str | None = None
    seed: int | None = None


class Case:
    """All claims about one instance, and those that stand; every comparison is exact.

    ``best``      claim of the least known cost, None without one
    ``bound``     claim of the greatest trusted lower bound, None without one
    ``integral``  True if costs are integers, which have no tolerance; else it is a relative 1e-9
    """

    def __init__(self, costs: Sequence[_Claim], bounds: Sequence[_Claim], integral: bool) -> None:
        self.integral = integral
        self.slack = Fraction(0) if integral else TOLERANCE
        self.costs, self.bounds = costs, bounds
        self.best = min(costs, key=lambda claim: claim.value, default=None)
        self.trusted = [claim for claim in bounds if not self.contradicts(claim.value)]
        self.contradictions = [claim for claim in bounds if self.contradicts(claim.value)]
        self.bound = max(self.trusted, key=lambda claim: claim.value, default=None)

    @property
    def ours(self) -> tuple[Fraction | None, Fraction | None]:
        """Least cost of the runs, and the greatest of their bounds that no cost of theirs contradicts."""
        cost = min((claim.value for claim in self.costs if claim.run), default=None)
        bounds = [claim.value for claim in self.bounds if claim.run]
        trusted = [b for b in bounds if cost is None or not contradicts(b, cost, self.integral)]
        return cost, max(trusted, default=None)

    def contradicts(self, bound: Fraction) -> bool:
        return self.best is not None and contradicts(bound, self.best.value, self.integral)

    def is_best(self, cost: Fraction) -> bool:
        return self.best is not None and cost <= self.best.value + abs(self.best.value) * self.slack

    def is_best_bound(self, bound: Fraction) -> bool:
        return self.bound is not None and bound >= self.bound.value - abs(self.bound.value) * self.slack

    def of_cost(self, cost: Fraction) -> tuple[float, float | None, float | None, bool, bool]:
        """``score, certified, gap, best, proven`` of a verified cost; see `relative_gap`."""
        best = self.is_best(cost)
        score = 1.0 if best else _ratio(self.best.value, cost) if self.best else 0.0
        if self.bound is None:
            return score, None, None, best, False
        bound = self.bound.value
        if proves(bound, cost, self.integral):
            return 1.0, 1.0, relative_gap(cost, bound), best, True
        return score, _ratio(bound, cost), relative_gap(cost, bound), best, False

    def of_bound(self, bound: Fraction) -> tuple[bool, float | None, bool, bool]:
        """``trusted, score, best, proves`` of a lower bound; its score is bound / known cost, 1 if that is proven."""
        if self.contradicts(bound):
            return False, None, False, False
        if self.best is None:
            return True, None, self.is_best_bound(bound), False
        cost = self.best.value
        proven = proves(bound, cost, self.integral)
        return True, 1.0 if proven else _ratio(bound, cost), self.is_best_bound(bound), proven


def _ratio(part: Fraction, whole: Fraction) -> float:
    """Return ``part / whole`` within [0, 1]; 1 only if the part reaches the whole, 0 for a part of 0 or less."""
    if part >= whole:
        return 1.0
    return min(float(part / whole), math.nextafter(1.0, 0.0)) if part > 0 else 0.0


def cases_of(instances: pl.DataFrame, runs: pl.DataFrame) -> dict[str, Case]:
    """Return one case per instance, by checksum. Costs of a track are integers if all verified ones are written so."""
    integer = pl.col("cost").str.contains(r"^-?\d+$")
    integral = dict(runs.group_by("track").agg(integer.any() & integer.all()).iter_rows())
    costs: dict[str, list[_Claim]] = {checksum: [] for checksum in instances["checksum"]}
    bounds: dict[str, list[_Claim]] = {checksum: [] for checksum in instances["checksum"]}
    claimed = runs.select("checksum", "solver", "id", "seed", "cost", "lower_bound")
    for checksum, *whose, cost, bound in claimed.iter_rows():
        for text, claims in ((cost, costs), (bound, bounds)):
            if text is not None:
                claims[checksum].append(_Claim(Fraction(text), text, *whose))
    cases = {}
    for checksum, track, facts in instances.select("checksum", "track", "published").iter_rows():
        stated = json.loads(facts)
        for key, claims in (("best_cost", costs), ("lower_bound", bounds)):
            claims[checksum] += _published(stated, key)
        cases[checksum] = Case(costs[checksum], bounds[checksum], integral[track])
    return cases


def _published(stated: Mapping[str, Any], key: str) -> list[_Claim]:
    """Return the claim of a value that was published, or known before any run, if there is one."""
    value = stated.get(key)
    if value is None:
        return []
    whose = KNOWN if str(stated.get(f"{key}_source")).startswith(UNPUBLISHED) else "published"
    return [_Claim(Fraction(str(value)), str(value), whose)]


def contradictions_of(instances: pl.DataFrame, cases: Mapping[str, Case]) -> pl.DataFrame:
    rows = [
        (*place, checksum, claim.by, claim.seed, claim.run, claim.text, case.best.text, case.best.by)
        for *place, checksum in instances.select(*DIVISION, "instance", "checksum").iter_rows()
        if (case := cases[checksum]).best
        for claim in case.contradictions
    ]
    columns = (*DIVISION, "instance", "checksum", "solver", "seed", "run", "bound", "cost", "against")
    return frame(columns, rows).sort("track", "instance", "solver", "seed")


def published_results(instances: pl.DataFrame, cases: Mapping[str, Case]) -> pl.DataFrame:
    """Return the published results on instances of the catalog, compared with the best of our runs."""
    where = (*DIVISION, "instance", "checksum")
    rows = [
        (*place, *astuple(result.author), kind, result.value, *_compared(kind, result.value, *ours))
        for *place, name, facts in instances.select(*where, "id", "published").iter_rows()
        if json.loads(facts)  # the catalog's file, not another file of the same name
        for ours in [cases[place[-1]].ours]
        for kind, result in published.results(name)
    ]
    worth_of = ("value_float", "of_cost", "of_bound", "better", "contradicted")
    return frame((*where, "who", "role", "about", "made", "kind", "value", *worth_of), rows)


def _compared(kind: str, text: str | None, cost: Fraction | None, bound: Fraction | None) -> tuple[Any, ...]:
    """``value_float, of_cost, of_bound, better, contradicted`` of a published result; exact except the ratios."""
    if text is None:
        return None, None, None, False, False
    value = Fraction(text)
    of_cost, of_bound = (quotient(value, ours) if ours else None for ours in (cost, bound))
    if kind == "bound":
        better, wrong = bound is None or value > bound, cost is not None and value > cost
    else:
        better, wrong = cost is None or value < cost, bound is not None and value < bound
    return float(value), of_cost, of_bound, better and not wrong, wrong
