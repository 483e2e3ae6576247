"""Exact comparison of all claims about an instance: costs and lower bounds of runs, publications and records."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl

from shardmark.harness.records import certificates
from shardmark.harness.records.best import RECORDS, BestKnown
from shardmark.harness.results import grades, published
from shardmark.harness.results.claims import contradicts, proves, quotient, relative_gap
from shardmark.harness.results.grades import PUBLISHED, UNPUBLISHED, Evidence
from shardmark.harness.results.ranking.frames import DIVISION, frame
from shardmark.harness.results.records import number

#: Author of a value of the catalog that was not published.
KNOWN = "known beforehand"
ALMOST_ONE = math.nextafter(1.0, 0.0)

_Stated = tuple[str, str, str | None, int | None]  # the text, author, run and seed of a claim


class _Claim(NamedTuple):
    """A stated cost or lower bound: its exact value in units of its case, its text, and its author.

    ``run`` and ``seed`` are None for a published value and for a record.
    """

    value: int
    text: str
    by: str
    run: str | None
    seed: int | None


class Grading(NamedTuple):
    """All that supports the bounds on an instance of a track, besides the bounds of runs.

    ``proofs``  the greatest bound that a run's certificate was found to prove, decimal text, by run
    ``known``   the bounds of the record and of publications
    """

    track: str
    proofs: Mapping[str, str]
    known: Sequence[Evidence]


class Case:
    """All claims about one instance, and those that stand; every comparison is exact.

    ``values``    the exact value of each decimal text, in units of 1 / ``unit``: as integers, whose arithmetic is fast
    ``best``      claim of the least known cost, None without one
    ``bound``     claim of the greatest trusted lower bound, None without one
    ``integral``  True if costs are integers, which have no tolerance; else it is a relative 1e-9
    ``grading``   what the grades of bounds rest on
    """

    def __init__(
        self, stated_costs: Sequence[_Stated], stated_bounds: Sequence[_Stated], integral: bool, grading: Grading
    ) -> None:
        self.integral, self.grading = integral, grading
        texts = (text for text, *_ in (*stated_costs, *stated_bounds))
        self.values, self.unit = _in_units(texts)
        costs, bounds = ([_Claim(self.values[x[0]], *x) for x in stated] for stated in (stated_costs, stated_bounds))
        self.costs, self.bounds = costs, bounds
        self.best = min(costs, key=lambda claim: claim.value, default=None)
        self.trusted = [claim for claim in bounds if not self.contradicts(claim.value)]
        self.contradictions = [claim for claim in bounds if self.contradicts(claim.value)]
        self.bound = max(self.trusted, key=lambda claim: claim.value, default=None)

    @property
    def ours(self) -> tuple[Fraction | None, Fraction | None]:
        """Least cost of the runs, and their greatest bound that none of their costs contradicts."""
        cost = min((claim.value for claim in self.costs if claim.run), default=None)
        bounds = [claim.value for claim in self.bounds if claim.run]
        bound = max((b for b in bounds if cost is None or not contradicts(b, cost, self.integral)), default=None)
        return tuple(None if value is None else Fraction(value, self.unit) for value in (cost, bound))  # type: ignore[return-value]

    @cached_property
    def grade(self) -> str | None:
        """Grade of the greatest trusted bound, None without one."""
        if self.bound is None:
            return None
        proofs = [Evidence("", number(text), number(text)) for text in self.grading.proofs.values()]
        known = [*self._claimed, *self.grading.known, *proofs]
        return grades.grade(self.grading.track, known, number(self.bound.text), self._cost)

    def grade_of_run(self, text: str, run: str) -> str:
        """Grade of the bound of a run: of certificates, only its own counts."""
        own, bound = self.grading.proofs.get(run), number(text)
        proof = [] if own is None else [Evidence("", bound, number(own))]
        known = [x._replace(proven=None) for x in self.grading.known]
        return grades.grade(self.grading.track, [*proof, *self._claimed, *known], bound, self._cost)

    @cached_property
    def _cost(self) -> int | float | None:
        """The least known cost, an int only if costs are integers."""
        if self.best is None:
            return None
        return number(self.best.text) if self.integral else float(self.best.text)

    @cached_property
    def _claimed(self) -> Sequence[Evidence]:
        """The greatest trusted bound of the runs of each method that agrees with others."""
        greatest: dict[str, _Claim] = {}
        for claim in self.trusted:
            known = greatest.get(claim.by)
            if (
                claim.run
                and claim.by in grades.FAMILIES[self.grading.track]
                and (not known or claim.value > known.value)
            ):
                greatest[claim.by] = claim
        return [Evidence(claim.by, number(claim.text)) for claim in greatest.values()]

    def contradicts(self, bound: int) -> bool:
        return self.best is not None and contradicts(bound, self.best.value, self.integral)

    def is_best(self, cost: int) -> bool:
        return self.best is not None and not contradicts(cost, self.best.value, self.integral)

    def is_best_bound(self, bound: int) -> bool:
        return self.bound is not None and not contradicts(-bound, -self.bound.value, self.integral)

    def of_cost(self, text: str) -> tuple[float, float | None, float | None, bool, bool]:
        """``score, certified, gap, best, proven`` of a verified cost; a proven one has the gap 0, see `claims.gap`."""
        cost = self.values[text]
        best = self.is_best(cost)
        score = 1.0 if best else _ratio(self.best.value, cost) if self.best else 0.0
        if self.bound is None:
            return score, None, None, best, False
        bound = self.bound.value
        if proves(bound, cost, self.integral, self.unit):
            return 1.0, 1.0, 0.0, best, True
        return score, _ratio(bound, cost), relative_gap(cost, bound), best, False

    def of_bound(self, text: str) -> tuple[bool, float | None, bool, bool]:
        """``trusted, score, best, proves`` of a lower bound; its score is bound / known cost, 1 if that is proven."""
        bound = self.values[text]
        if self.contradicts(bound):
            return False, None, False, False
        if self.best is None:
            return True, None, self.is_best_bound(bound), False
        cost = self.best.value
        proven = proves(bound, cost, self.integral, self.unit)
        return True, 1.0 if proven else _ratio(bound, cost), self.is_best_bound(bound), proven


def _in_units(texts: Iterable[str]) -> tuple[dict[str, int], int]:
    """Return the exact value of each decimal text as a multiple of 1 / unit, and the unit: a power of ten."""
    parts = {text: _digits(text) for text in texts}
    places = max((places for _, places in parts.values()), default=0)
    factors = {fewer: 10 ** (places - fewer) for _, fewer in parts.values()}
    return {text: number * factors[fewer] for text, (number, fewer) in parts.items()}, 10**places


def _digits(text: str) -> tuple[int, int]:
    """Return a decimal text as an integer and the number of its decimal places, at least 0."""
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    number, places = int(whole + fraction), len(fraction) - int(exponent or 0)
    return (number, places) if places >= 0 else (number * 10**-places, 0)


def _ratio(part: int, whole: int) -> float:
    """Return ``part / whole`` within [0, 1]; 1 only if the part reaches the whole, 0 for a part of 0 or less."""
    if part >= whole:
        return 1.0
    return min(part / whole, ALMOST_ONE) if part > 0 else 0.0


def cases_of(
    instances: pl.DataFrame, runs: pl.DataFrame, records: Mapping[str, BestKnown], proofs: pl.DataFrame
) -> dict[str, Case]:
    """Return the case of each instance by its checksum; ``records`` are by checksum too.

    ``proofs`` has the column ``run`` and ``proven``, the greatest bound that the run's certificate was found to prove.

    Costs of a track are integers if all verified ones are written so.
    """
    integer = pl.col("cost_exact").str.contains(r"^-?\d+$")
    integral = dict(runs.group_by("track").agg(integer.any() & integer.all()).iter_rows())
    costs: dict[str, list[_Stated]] = {checksum: [] for checksum in instances["checksum"]}
    bounds: dict[str, list[_Stated]] = {checksum: [] for checksum in instances["checksum"]}
    for column, stated_by in (("cost_exact", costs), ("lower_bound_exact", bounds)):
        claimed = runs.select("checksum", column, "solver", "id", "seed").filter(pl.col(column).is_not_null())
        for checksum, *claim in claimed.iter_rows():
            stated_by[checksum].append(tuple(claim))
    found: dict[str, dict[str, str]] = {checksum: {} for checksum in instances["checksum"]}
    checked = proofs.drop_nulls("proven").join(runs.select("checksum", run="id"), on="run")
    for checksum, run, proven in checked.select("checksum", "run", "proven").iter_rows():
        found[checksum][run] = proven
    cases = {}
    for checksum, track, facts in instances.select("checksum", "track", "published").iter_rows():
        stated, record = json.loads(facts), records.get(checksum)
        for key, claims in (("best_cost", costs), ("lower_bound", bounds)):
            claims[checksum] += _published(stated, key)
        for line, claims in ((record.cost, costs), (record.bound, bounds)) if record else ():
            claims[checksum] += [(line.value, RECORDS, None, None)] if line else []
        known = list(certificates.evidence(record)) if record else grades.published(stated)
        grading = Grading(track, found[checksum], known)
        cases[checksum] = Case(costs[checksum], bounds[checksum], integral[track], grading)
    return cases


def _published(stated: Mapping[str, Any], key: str) -> list[_Stated]:
    """Return the claim of a published value, or of one known before any run; empty if the catalog has none."""
    value = stated.get(key)
    if value is None:
        return []
    whose = KNOWN if str(stated.get(f"{key}_source")).startswith(UNPUBLISHED) else PUBLISHED
    return [(str(value), whose, None, None)]


def contradictions_of(instances: pl.DataFrame, cases: Mapping[str, Case]) -> pl.DataFrame:
    rows = [
        (*place, checksum, claim.by, claim.seed, claim.run, *_both(claim.text), *_both(case.best.text), case.best.by)
        for *place, checksum in instances.select(*DIVISION, "instance", "checksum").iter_rows()
        if (case := cases[checksum]).best
        for claim in case.contradictions
    ]
    values = ("bound", "bound_exact", "cost", "cost_exact")
    columns = (*DIVISION, "instance", "checksum", "solver", "seed", "run", *values, "against")
    return frame(columns, rows).sort("track", "instance", "solver", "seed")


def _both(text: str) -> tuple[float, str]:
    """Return a decimal text as the nearest float, and as it is."""
    return float(text), text


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
    worth_of = ("value", "of_cost", "of_bound", "better", "contradicted")
    return frame((*where, "who", "role", "about", "made", "kind", "value_exact", *worth_of), rows)


def _compared(kind: str, text: str | None, cost: Fraction | None, bound: Fraction | None) -> tuple[Any, ...]:
    """``value, of_cost, of_bound, better, contradicted`` of a published result; exact except the ratios."""
    if text is None:
        return None, None, None, False, False
    value = Fraction(text)
    of_cost, of_bound = (quotient(value, ours) if ours else None for ours in (cost, bound))
    if kind == "bound":
        better, wrong = bound is None or value > bound, cost is not None and value > cost
    else:
        better, wrong = cost is None or value < cost, bound is not None and value < bound
    return float(value), of_cost, of_bound, better and not wrong, wrong
