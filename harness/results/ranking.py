"""What runs are worth: scores of runs, instances, solvers and bound methods; polars does the arithmetic of tables.

Costs and bounds are compared as exact fractions of their stored decimal text, never as floats; only ratios are floats.
The words:

score       least known cost of the instance / cost of the run, the contest's score (1 for what counts as the least or
            as proven); 0 without a solution, but null for a solver that declined the whole division
certified   greatest trusted lower bound of the instance / cost of the run: at least this part of the optimum is reached
            (1 if that proves the cost optimal, and only then)
gap         cost / trusted lower bound - 1; infinite if it lies beyond float64, null for a bound of 0 or less
division    of a track: its instances of the same modes, see `instances.options`; whatever is summed, averaged or ranked
            is so within one division
known cost  the least of the verified costs of all current runs, bound methods included, and of the published best
trusted     of a bound: not above the known cost, see `harness.results.claims`
current     of a run: what the newest campaign that names its solver, instance content and seed asked for
"""

from __future__ import annotations

import io
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from harness.results import published
from harness.results.claims import PROVEN, TOLERANCE, contradicts, proves, quotient, relative_gap
from harness.results.database import Store
from harness.results.rows import named, shown
from instances import TRACKS, InputError, catalog, track_module
from instances.files.jsonfile import write_bytes
from instances.options import division

__all__ = [
    "PROVEN",
    "TOLERANCE",
    "InputError",
    "Tables",
    "export_table",
    "run_table",
    "shown_table",
    "tables",
    "write_csv",
    "write_parquet",
]

#: How many times the instances of a track are drawn anew, with replacement, to see how firm a ranking is.
RESAMPLES = 2000
#: Fewer instances than this say nothing about how firm a ranking is.
FEWEST_RESAMPLED = 5

#: Whose a value of the catalog is that nobody published, and how the source of such a one begins.
KNOWN, UNPUBLISHED = "known beforehand", ("enumeration", "ours")

#: Types of columns that are not text.
_TYPES: dict[str, Any] = {
    **dict.fromkeys(["campaign", "seed", "cores", "number", "feasible", "processes", "co_runners", "jobs"], pl.Int64),
    **dict.fromkeys(["timeout_s", "cpu_limit_s", "memory_mib", "output_mib"], pl.Float64),
    **dict.fromkeys(["wall_s", "cpu_s", "peak_mib", "time_s"], pl.Float64),
    **dict.fromkeys(["cost_float", "best_cost_float", "lower_bound_float", "value_float"], pl.Float64),
    **dict.fromkeys(["score", "certified", "gap", "bound_score", "score_low", "score_high", "first_share"], pl.Float64),
    **dict.fromkeys(["best", "proven", "bound_trusted", "bound_best", "bound_proves"], pl.Boolean),
    **dict.fromkeys(["of_cost", "of_bound"], pl.Float64),
    **dict.fromkeys(["better", "contradicted"], pl.Boolean),
    **dict.fromkeys(["best_by", "bound_by"], pl.List(pl.String)),
}
#: The columns of exported tables that fit a terminal, of those that have more.
_SHORT = {
    "runs": [
        *("track", "division", "instance", "solver", "seed", "status"),
        *("cost", "score", "lower_bound", "certified", "gap", "wall_s"),
    ],
    "solvers": [
        *("track", "division", "rank", "solver", "score_sum", "certified_sum"),
        *("instances", "solved", "expected", "best", "proven"),
    ],
}
_METHOD = ["track", "solver"]
_RANKING = ["track", "division"]
_ENTRY = [*_RANKING, "solver"]
_CELL = ["track", "solver", "checksum"]


@dataclass(frozen=True)
class Tables:
    """Everything that pages show. Costs and bounds are decimal text, ``..._float`` is their float; times in seconds.

    ``tracks``          track -> what it is, one sentence; the tracks that have runs, in the order of the project
    ``divisions``       track -> the names of its divisions that have runs, in the order of their modes; one without a
                        name, "", where the track has no modes. All tables of instances, runs and methods have the
                        column ``division``
    ``runs``            a row a current run: the columns of the store, ``checksum`` and ``instance`` (unique in its
                        track), ``division``, and ``score certified gap best proven time_to_best_s bound_trusted
                        bound_score bound_best bound_proves time_to_bound_s``
    ``instances``       a row an instance: ``track division instance checksum summary published`` (both JSON), ``about``
                        (what the catalog says of it, empty without),
                        ``best_cost best_cost_float best_by lower_bound lower_bound_float bound_by`` (lists of names,
                        "published" and "known beforehand" among them), ``gap proven runs solved``
    ``results``         a row a solver or bound and instance, seeds averaged: ``kind runs solved score certified best
                        proven time_to_best_s bounded bound_score bound_best bound_proves time_to_bound_s``
    ``solvers``         the rankings, a row a division and solver: ``rank``, its facts (``kind hash source description
                        params``), ``score_sum score_low score_high first_share score_geomean certified_sum
                        certified_geomean certified_instances instances covered coverage runs solved expected best
                        proven time_to_best_s``
    ``bounds``          the same for bound methods, and for solvers that have a trusted bound there: ``bound_sum
                        bound_geomean bound_best bound_proves contradictions instances covered coverage runs bounded
                        expected time_to_bound_s``
    ``declined``        a row a division and a solver or bound method that declined every run there, and is not ranked
                        in it: its facts, ``runs``
    ``profiles``        ``track division solver ratio share``: share of the division's instances solved at a cost of at
                        most ``ratio`` x the known cost; one step a row
    ``anytime``         ``track division solver time_s score``: mean score over the division's instances reached by then
    ``incumbents``      ``run time_s feasible cost cost_float``, in the order of arrival
    ``reported``        ``run time_s value value_float``: lower bounds, in the order of arrival
    ``published``       a row a published result on an instance that stands beside ours and counts nowhere: ``track
                        division instance checksum who role about made kind`` ("cost" or "bound"), ``value
                        value_float`` (null if nobody found anything feasible), ``of_cost of_bound`` (the value over
                        the least cost and over the greatest bound of the runs here), ``better`` (than all runs here),
                        ``contradicted`` (by one)
    ``contradictions``  a row a bound above a known cost: ``track division instance checksum solver seed run bound cost
                        against``
    ``campaigns``       ``id started ended command version executor jobs`` and ``runs``, current ones
    ``hosts``           a row a machine of a campaign: ``campaign name facts disturbances`` (JSON, disturbances null if
                        nobody looked) and ``runs``, current ones
    ``notes``           ``track instance note``: what a reader should know before comparing; ``instance`` may be null
    """

    tracks: Mapping[str, str]
    divisions: Mapping[str, Sequence[str]]
    runs: pl.DataFrame
    instances: pl.DataFrame
    results: pl.DataFrame
    solvers: pl.DataFrame
    bounds: pl.DataFrame
    declined: pl.DataFrame
    profiles: pl.DataFrame
    anytime: pl.DataFrame
    incumbents: pl.DataFrame
    reported: pl.DataFrame
    published: pl.DataFrame
    contradictions: pl.DataFrame
    campaigns: pl.DataFrame
    hosts: pl.DataFrame
    notes: pl.DataFrame

    def __repr__(self) -> str:
        """The number of rows of each table."""
        rows = [f"{name} {frame.height}" for name, frame in vars(self).items() if isinstance(frame, pl.DataFrame)]
        return f"Tables(rows: {', '.join(rows)})"

    def costs_over_time(self) -> dict[str, list[tuple[float, float]]]:
        """Time and cost of each feasible solution that is better than all before it, by run; none for any other key."""
        return _improvements(self.incumbents.filter(pl.col("feasible") == 1), "cost_float", pl.Expr.cum_min)

    def bounds_over_time(self) -> dict[str, list[tuple[float, float]]]:
        """Time and value of each lower bound that is better than all before it, by run; none for any other key."""
        return _improvements(self.reported, "value_float", pl.Expr.cum_max)


def tables(store: Store, only: Collection[str] | None = None) -> Tables:
    """Score a results database, or its instances whose ids are in ``only``: one pass over the runs, then columns."""
    everything = _load(store, "runs").filter(pl.lit(only is None) | pl.col("instance").is_in(list(only or [])))
    everything = everything.drop("instance")
    instances, facts, campaigns = _what_runs_refer_to(store, everything)
    runs = _current(everything, _load(store, "matrix"))
    instances = _named(instances.join(runs, on="checksum", how="semi"))
    instances, divisions = _divide(_described(instances))
    named = instances.select("checksum", "instance", "division")
    runs = runs.join(named, on="checksum", how="left", maintain_order="left")
    incumbents = _reports(store, "incumbents", runs)
    reported = _reports(store, "bounds", runs)
    cases = _cases(instances, runs)
    runs = _score_runs(runs, cases, incumbents, reported)
    instances = _score_instances(instances, runs, cases)
    declined = _declined(runs)
    runs = _without_zeros(runs, declined)
    results = _results(runs)
    hosts = _count_runs(_load(store, "hosts"), runs, {"campaign": "campaign", "host": "name"})
    taken = results.join(declined, on=_ENTRY, how="anti")
    expected = _expected(runs, instances).join(declined, on=_ENTRY, how="anti")
    contradictions = _contradictions(instances, cases)
    return Tables(
        tracks=_tracks(runs),
        divisions=divisions,
        runs=runs,
        instances=instances,
        results=results,
        solvers=_with_facts(_rank(_solvers(taken, expected), taken), runs, facts),
        bounds=_with_facts(_bound_methods(taken, expected, contradictions), runs, facts),
        declined=_with_facts(declined, runs, facts),
        profiles=_profiles(runs, instances),
        anytime=_anytime(runs, instances, incumbents),
        incumbents=incumbents,
        reported=reported,
        published=_results_of_others(instances, cases),
        contradictions=contradictions,
        campaigns=_count_runs(campaigns, runs, {"campaign": "id"}),
        hosts=hosts,
        notes=_notes(everything, runs, instances, hosts, expected),
    )


def export_table(scored: Tables, name: str) -> pl.DataFrame:
    """A table that ``shardmark results`` prints and exports, flat columns, by its name there."""
    if name == "runs":
        return run_table(scored)
    if name == "solvers":
        return scored.solvers.drop("kind", "missing")
    exported = {"incumbents": scored.incumbents, "bounds": scored.reported, "published": scored.published}
    return {**exported, "campaigns": scored.campaigns, "hosts": scored.hosts}[name]


def run_table(scored: Tables) -> pl.DataFrame:
    """The current runs with their scores, a row each, flat columns."""
    first = ["track", "division", "instance", "solver", "kind", "seed", "status", "cost", "score"]
    bound = ["lower_bound", "certified"]
    then = ["gap", "best", "proven", "time_to_best_s", "wall_s", "cpu_s", "peak_mib", "timeout_s", "memory_mib"]
    limits = ["cores", "cpu_limit_s", "processes", "output_mib", "backend", "enforced", "co_runners", "host"]
    last = ["stop", "claimed", "verified", "started", "reason", "solver_hash", "checksum", "id"]
    order = ["track", "instance", "kind", "solver", "seed"]
    return scored.runs.select(*first, *bound, *then, *limits, *last).sort(order)


def shown_table(frame: pl.DataFrame, name: str) -> pl.DataFrame:
    """An exported table as a terminal shows it: what fits, and divisions only where a track has several."""
    columns = _SHORT.get(name, frame.columns)
    divided = "division" in columns and frame.select(_RANKING).unique()["track"].is_duplicated().any()
    return frame.select(column for column in columns if divided or column != "division")


def write_parquet(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a table as Parquet; InputError if the file cannot be written."""
    _write(path, frame.write_parquet)


def write_csv(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a table as CSV, UTF-8, nothing for null; InputError if the file cannot be written."""
    _write(path, frame.write_csv)


def _write(path: str | Path, write: Callable[[io.BytesIO], object]) -> None:
    content = io.BytesIO()
    write(content)
    write_bytes(path, content.getvalue())


# ---------------------------------------------------------------- what counts


def _frame(columns: Sequence[str], rows: Sequence[Sequence[Any]], **types: Any) -> pl.DataFrame:
    known = {**_TYPES, **types}
    return pl.DataFrame(rows, schema={name: known.get(name, pl.String) for name in columns}, orient="row")


def _load(store: Store, table: str, **types: Any) -> pl.DataFrame:
    """A table of the store; InputError for the first value in it that is not what its column holds."""
    return _frame(*store.rows(table), **types)


def _what_runs_refer_to(store: Store, runs: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The tables of instances, solvers and campaigns; InputError for a run that refers to a row they do not have."""
    instances, solvers = _load(store, "instances"), _load(store, "solvers")
    campaigns = _load(store, "campaigns", id=pl.Int64)
    _require(store, runs, ["checksum", "track"], instances.select("checksum", "track"), "instances")
    _require(store, runs, ["track", "solver", "solver_hash"], solvers.select("track", "name", "hash"), "solvers")
    _require(store, runs, ["campaign"], campaigns.select("id"), "campaigns")
    return instances, solvers, campaigns


def _require(store: Store, rows: pl.DataFrame, columns: Sequence[str], others: pl.DataFrame, table: str) -> None:
    """InputError for the first of the runs that refers to a row which another table does not have."""
    for lost in rows.join(others, left_on=columns, right_on=others.columns, how="anti").iter_rows(named=True):
        found = ", ".join(shown(lost[column]) for column in columns)
        expected = f"expected {', '.join(others.columns)} of a row of {table}, found {found}"
        raise InputError(store.path, f"{named('runs', lost)} {', '.join(columns)}", expected)


def _reports(store: Store, table: str, runs: pl.DataFrame) -> pl.DataFrame:
    """Incumbents or bounds of the current runs, in the order of arrival."""
    return _load(store, table).join(runs, left_on="run", right_on="id", how="semi").sort("run", "number")


def _improvements(frame: pl.DataFrame, value: str, best: Any) -> dict[str, list[tuple[float, float]]]:
    so_far = best(pl.col(value)).over("run")
    better = (so_far != so_far.shift(1).over("run")).fill_null(True)
    kept = frame.filter(pl.col(value).is_not_null()).filter(better).select("run", "time_s", value)
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for run, time_s, amount in kept.iter_rows():
        found[run].append((time_s, amount))
    return found


def _current(runs: pl.DataFrame, matrix: pl.DataFrame) -> pl.DataFrame:
    """Of what the newest campaigns asked for: runs of each solver's version, the newest of every content and seed."""
    asked = matrix.group_by(id="run").agg(asked=pl.col("campaign").max())
    ordered = runs.join(asked, on="id", how="left").sort(pl.coalesce("asked", "campaign"), "started", "id")
    newest_version = pl.col("solver_hash") == pl.col("solver_hash").last().over(_METHOD)
    return ordered.drop("asked").filter(newest_version).unique([*_CELL, "seed"], keep="last", maintain_order=True)


def _named(instances: pl.DataFrame) -> pl.DataFrame:
    """Name instances uniquely in their track: contents (or options) that share an id are told apart by checksum."""
    shared = pl.len().over("track", "id") > 1
    name = pl.when(shared).then(pl.concat_str("id", pl.lit("@"), pl.col("checksum").str.head(8))).otherwise("id")
    return instances.with_columns(instance=name).sort("track", "instance")


def _described(instances: pl.DataFrame) -> pl.DataFrame:
    """Add what the catalog says of its instances; nothing where another content or other options have an id of it."""
    notes = {(entry.track, entry.id): entry.note for entry in catalog.entries()}
    about = [notes.get((track, name), "") for track, name in instances.select("track", "instance").iter_rows()]
    return instances.with_columns(pl.Series("about", about, pl.String))


def _divide(instances: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, list[str]]]:
    """Add to instances their division; and the names of the divisions of each track, in their order."""
    found = [_division(*row) for row in instances.select("track", "summary").iter_rows()]
    divided = instances.with_columns(pl.Series("division", [name for _, name in found], pl.String))
    names: dict[str, list[str]] = defaultdict(list)
    for track, (_, name) in sorted(set(zip(instances["track"], found, strict=True))):
        names[track].append(name)
    return divided, names


def _division(track: str, summary: str) -> tuple[tuple[int, ...], str]:
    return division(track_module(track).OPTIONS, json.loads(summary))


def _tracks(runs: pl.DataFrame) -> dict[str, str]:
    """Tracks that have runs, with the first line of their module's docstring, less its first words."""
    found = set(runs["track"])
    return {track: _describe(track) for track in TRACKS if track in found}


def _describe(track: str) -> str:
    line = (track_module(track).__doc__ or "").strip().split("\n")[0]
    return re.sub(r"^Track\s+`*\w+`*:\s*", "", line).replace("``", "")


# ---------------------------------------------------------------- an instance: what is claimed, what stands


@dataclass(frozen=True)
class _Claim:
    """A cost or a lower bound that somebody states: its exact value, its text, and whose it is.

    ``run`` and ``seed`` are None for what is published.
    """

    value: Fraction
    text: str
    by: str
    run: str | None = None
    seed: int | None = None


class _Case:
    """All that is claimed about one instance, and what of it stands; every comparison is exact.

    ``best``      claim of the least known cost, None without one
    ``bound``     claim of the greatest trusted lower bound, None without one
    ``integral``  whether costs are integers: then nothing is forgiven, else a relative 1e-9
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
        """The least cost of the runs, and the greatest of their bounds that none of their costs contradicts."""
        cost = min((claim.value for claim in self.costs if claim.run), default=None)
        bounds = [claim.value for claim in self.bounds if claim.run]
        stand = [b for b in bounds if cost is None or not contradicts(b, cost, self.integral)]
        return cost, max(stand, default=None)

    def contradicts(self, bound: Fraction) -> bool:
        """Whether a lower bound lies above the known cost."""
        return self.best is not None and contradicts(bound, self.best.value, self.integral)

    def is_best(self, cost: Fraction) -> bool:
        """Whether a cost is the least known one."""
        return self.best is not None and cost <= self.best.value + abs(self.best.value) * self.slack

    def is_best_bound(self, bound: Fraction) -> bool:
        """Whether a trusted bound is the greatest one."""
        return self.bound is not None and bound >= self.bound.value - abs(self.bound.value) * self.slack

    def of_cost(self, cost: Fraction) -> tuple[float, float | None, float | None, bool, bool]:
        """``score, certified, gap, best, proven`` of a verified cost; see `relative_gap`."""
        best = self.is_best(cost)
        score = 1.0 if best else _ratio(self.best.value, cost) if self.best else 0.0
        if self.bound is None:
            return score, None, None, best, False
        bound = self.bound.value
        proven = proves(bound, cost, self.integral)
        certified = 1.0 if proven else _ratio(bound, cost)
        return 1.0 if proven else score, certified, relative_gap(cost, bound), best, proven

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
    """``part / whole`` within [0, 1]; 1 if the part reaches the whole, and only then; 0 for a part of 0 or less."""
    if part >= whole:
        return 1.0
    return min(float(part / whole), math.nextafter(1.0, 0.0)) if part > 0 else 0.0


def _cases(instances: pl.DataFrame, runs: pl.DataFrame) -> dict[str, _Case]:
    """A case an instance, by checksum. A track's costs are integers if every verified one is written as one."""
    integer = pl.col("cost").str.contains(r"^-?\d+$")
    integral = dict(runs.group_by("track").agg(integer.any() & integer.all()).iter_rows())
    costs: dict[str, list[_Claim]] = {checksum: [] for checksum in instances["checksum"]}
    bounds: dict[str, list[_Claim]] = {checksum: [] for checksum in instances["checksum"]}
    for checksum, *whose, cost, bound in runs.select(
        "checksum", "solver", "id", "seed", "cost", "lower_bound"
    ).iter_rows():
        for text, claims in ((cost, costs), (bound, bounds)):
            if text is not None:
                claims[checksum].append(_Claim(Fraction(text), text, *whose))
    cases = {}
    for checksum, track, facts in instances.select("checksum", "track", "published").iter_rows():
        stated = json.loads(facts)
        for key, claims in (("best_cost", costs), ("lower_bound", bounds)):
            claims[checksum] += _published(stated, key)
        cases[checksum] = _Case(costs[checksum], bounds[checksum], integral[track])
    return cases


def _published(stated: Mapping[str, Any], key: str) -> list[_Claim]:
    """The claim that a published value makes, or another one that was known before any run, if there is one."""
    value = stated.get(key)
    if value is None:
        return []
    whose = KNOWN if str(stated.get(f"{key}_source")).startswith(UNPUBLISHED) else "published"
    return [_Claim(Fraction(str(value)), str(value), whose)]


def _contradictions(instances: pl.DataFrame, cases: Mapping[str, _Case]) -> pl.DataFrame:
    rows = [
        (*place, checksum, claim.by, claim.seed, claim.run, claim.text, case.best.text, case.best.by)
        for *place, checksum in instances.select(*_RANKING, "instance", "checksum").iter_rows()
        if (case := cases[checksum]).best
        for claim in case.contradictions
    ]
    columns = (*_RANKING, "instance", "checksum", "solver", "seed", "run", "bound", "cost", "against")
    return _frame(columns, rows).sort("track", "instance", "solver", "seed")


def _results_of_others(instances: pl.DataFrame, cases: Mapping[str, _Case]) -> pl.DataFrame:
    """What was published of instances of the catalog, beside the best of our runs on them."""
    where = (*_RANKING, "instance", "checksum")
    rows = [
        (*place, *astuple(result.author), kind, result.value, *_beside(kind, result.value, *ours))
        for *place, name, facts in instances.select(*where, "id", "published").iter_rows()
        if json.loads(facts)  # of the catalog's file, not of one that is only called the same
        for ours in [cases[place[-1]].ours]
        for kind, result in published.results(name)
    ]
    worth_of = ("value_float", "of_cost", "of_bound", "better", "contradicted")
    return _frame((*where, "who", "role", "about", "made", "kind", "value", *worth_of), rows)


def _beside(kind: str, text: str | None, cost: Fraction | None, bound: Fraction | None) -> tuple[Any, ...]:
    """``value_float, of_cost, of_bound, better, contradicted`` of a published result; exact but for the ratios."""
    if text is None:
        return None, None, None, False, False
    value = Fraction(text)
    of_cost, of_bound = (quotient(value, ours) if ours else None for ours in (cost, bound))
    if kind == "bound":
        better, wrong = bound is None or value > bound, cost is not None and value > cost
    else:
        better, wrong = cost is None or value < cost, bound is not None and value < bound
    return float(value), of_cost, of_bound, better and not wrong, wrong


# ---------------------------------------------------------------- runs and instances


def _score_runs(
    runs: pl.DataFrame, cases: Mapping[str, _Case], incumbents: pl.DataFrame, reported: pl.DataFrame
) -> pl.DataFrame:
    """Add the scores of runs, and the times at which their final cost and bound came."""
    of_cost = ("cost_float", "score", "certified", "gap", "best", "proven")
    of_bound = ("lower_bound_float", "bound_trusted", "bound_score", "bound_best", "bound_proves")
    claims = runs.select("checksum", "kind", "cost", "lower_bound").iter_rows()
    worth = [_score_run(cases[checksum], *claim) for checksum, *claim in claims]
    scored = runs.hstack(_frame((*of_cost, *of_bound), worth))
    found = incumbents.filter(pl.col("feasible") == 1).select("cost", id="run", time_to_best_s="time_s")
    proved = reported.select(id="run", lower_bound="value", time_to_bound_s="time_s")
    for arrivals, value in ((found, "cost"), (proved, "lower_bound")):
        first = arrivals.unique(["id", value], keep="first", maintain_order=True)
        scored = scored.join(first, on=["id", value], how="left", maintain_order="left")
    return scored


def _score_run(case: _Case, kind: str, cost: str | None, bound: str | None) -> tuple[Any, ...]:
    """Scores of one run: those of its cost, then those of its bound. A bound method owes no cost."""
    if cost is not None:
        of_cost: tuple[Any, ...] = (float(Fraction(cost)), *case.of_cost(Fraction(cost)))
    elif kind == "bound":
        of_cost = (None, None, None, None, False, False)
    else:
        of_cost = (None, 0.0, None if case.bound is None else 0.0, None, False, False)
    if bound is None:
        return *of_cost, None, None, None, False, False
    return *of_cost, float(Fraction(bound)), *case.of_bound(Fraction(bound))


def _score_instances(instances: pl.DataFrame, runs: pl.DataFrame, cases: Mapping[str, _Case]) -> pl.DataFrame:
    """Add what is known of each instance: best cost and whose, trusted bound and whose, gap, proof."""
    of_best, of_bound = ("best_cost", "best_cost_float", "best_by"), ("lower_bound", "lower_bound_float", "bound_by")
    known = [_known(cases[checksum]) for checksum in instances["checksum"]]
    counted = runs.group_by("checksum").agg(runs=pl.len(), solved=pl.col("cost").is_not_null().sum())
    scored = instances.hstack(_frame((*of_best, *of_bound, "gap", "proven"), known))
    return scored.join(counted, on="checksum", how="left", maintain_order="left")


def _known(case: _Case) -> tuple[Any, ...]:
    best, bound = case.best, case.bound
    gap, proven = case.of_cost(best.value)[2::2] if best else (None, False)
    return (
        *((best.text, float(best.value)) if best else (None, None)),
        list(dict.fromkeys(claim.by for claim in case.costs if case.is_best(claim.value))),
        *((bound.text, float(bound.value)) if bound else (None, None)),
        list(dict.fromkeys(claim.by for claim in case.trusted if case.is_best_bound(claim.value))),
        *(gap, proven),
    )


def _results(runs: pl.DataFrame) -> pl.DataFrame:
    """A row a method and instance. Seeds are averaged: a score is the mean over seeds, 0 for one without a solution."""
    trusted = pl.col("bound_trusted").fill_null(False)
    return (
        runs.group_by(*_CELL, "division", "instance")
        .agg(
            pl.col("kind").last(),
            pl.col("score", "certified", "time_to_best_s").mean(),
            pl.col("best", "proven", "bound_best", "bound_proves").any(),
            runs=pl.len(),
            solved=pl.col("cost").is_not_null().sum(),
            bounded=trusted.sum(),
            bound_score=pl.col("bound_score").fill_null(0.0).mean(),
            time_to_bound_s=pl.col("time_to_bound_s").filter(trusted).mean(),
        )
        .sort("track", "solver", "instance")
    )


# ---------------------------------------------------------------- solvers and bound methods


def _declined(runs: pl.DataFrame) -> pl.DataFrame:
    """Methods that declined a whole division: each of their runs in it, and without a cost or a bound."""
    nothing = (pl.col("status") == "declined") & pl.col("cost").is_null() & pl.col("lower_bound").is_null()
    counted = runs.group_by(_ENTRY).agg(nothing.all().alias("declined"), runs=pl.len())
    return counted.filter("declined").drop("declined").sort(_ENTRY)


def _without_zeros(runs: pl.DataFrame, declined: pl.DataFrame) -> pl.DataFrame:
    """Leave what was declined as a whole without a score."""
    kept = declined.select(*_ENTRY, pl.lit(False).alias("scored"))
    score = pl.when(pl.col("scored").fill_null(True)).then(pl.col("score", "certified"))
    return runs.join(kept, on=_ENTRY, how="left", maintain_order="left").with_columns(score).drop("scored")


def _expected(runs: pl.DataFrame, instances: pl.DataFrame) -> pl.DataFrame:
    """How many runs each method should have: those it has, and one for every instance of a division it never ran on.

    Of the divisions that it was run in at all.
    """
    size = instances.group_by(_RANKING).agg(instances=pl.len())
    seen = runs.group_by(_ENTRY).agg(runs=pl.len(), attempted=pl.col("checksum").n_unique())
    missing = pl.col("instances") - pl.col("attempted")
    return seen.join(size, on=_RANKING).select(
        *_ENTRY, "runs", "instances", missing=missing, expected=pl.col("runs") + missing
    )


def _geomean(column: str, where: pl.Expr) -> pl.Expr:
    """Geometric mean of the values where ``where`` holds: 0 if one of them is 0, null if there is none."""
    return pl.col(column).filter(where).log().mean().exp()


def _solvers(results: pl.DataFrame, expected: pl.DataFrame) -> pl.DataFrame:
    covered = pl.col("solved") > 0
    certified = covered & (pl.col("certified") > 0)
    totals = (
        results.filter(pl.col("kind") == "solver")
        .group_by(_ENTRY)
        .agg(
            pl.col("solved", "best", "proven").sum(),
            pl.col("time_to_best_s").median(),
            score_sum=pl.col("score").sum(),
            score_geomean=_geomean("score", covered),
            certified_sum=pl.col("certified").sum(),
            certified_geomean=_geomean("certified", certified),
            certified_instances=certified.sum(),
            covered=covered.sum(),
        )
    )
    return totals.join(expected, on=_ENTRY).with_columns(coverage=pl.col("solved") / pl.col("expected"))


def _bound_methods(results: pl.DataFrame, expected: pl.DataFrame, contradictions: pl.DataFrame) -> pl.DataFrame:
    covered = pl.col("bounded") > 0
    totals = (
        results.filter((pl.col("kind") == "bound") | covered.any().over(_ENTRY))
        .group_by(_ENTRY)
        .agg(
            pl.col("bounded", "bound_best", "bound_proves").sum(),
            pl.col("time_to_bound_s").median(),
            bound_sum=pl.col("bound_score").sum(),
            bound_geomean=_geomean("bound_score", covered & (pl.col("bound_score") > 0)),
            covered=covered.sum(),
        )
    )
    wrong = contradictions.group_by(_ENTRY).agg(contradictions=pl.len())
    order = [*_RANKING, pl.col("bound_sum").round(9), "bound_geomean", "solver"]
    return (
        totals.join(expected, on=_ENTRY)
        .join(wrong, on=_ENTRY, how="left")
        .with_columns(pl.col("contradictions").fill_null(0), coverage=pl.col("bounded") / pl.col("expected"))
        .sort(order, descending=[False, False, True, True, False])
    )


def _with_facts(methods: pl.DataFrame, runs: pl.DataFrame, facts: pl.DataFrame) -> pl.DataFrame:
    """Add what the newest version of each method says of itself: kind, hash, source, description, params."""
    newest = runs.group_by(_METHOD).agg(hash=pl.col("solver_hash").last())
    plain = pl.col("description").str.replace_all("``", "", literal=True)
    facts = facts.rename({"name": "solver"}).with_columns(plain)
    return methods.join(newest, on=_METHOD, maintain_order="left").join(
        facts, on=[*_METHOD, "hash"], how="left", maintain_order="left"
    )


def _rank(solvers: pl.DataFrame, results: pl.DataFrame) -> pl.DataFrame:
    """Add ranks in a division by the sum of scores, equal for equal sums, and how firm they are; best first."""
    total = pl.col("score_sum").round(9)
    ranked = solvers.with_columns(rank=total.rank("min", descending=True).over(_RANKING).cast(pl.Int64))
    firm = [_firmness(cells) for cells in results.filter(pl.col("kind") == "solver").partition_by(_RANKING)]
    firmness = _frame((*_ENTRY, "score_low", "score_high", "first_share"), [row for rows in firm for row in rows])
    order = [*_RANKING, "rank", "score_geomean", "solver"]
    return ranked.join(firmness, on=_ENTRY, how="left").sort(order, descending=[False, False, False, True, False])


def _firmness(cells: pl.DataFrame) -> list[tuple[Any, ...]]:
    """``track, division, solver, score_low, score_high, first_share`` of a division's solvers.

    The instances are drawn anew `RESAMPLES` times, with replacement, from a fixed seed. Low and high enclose the
    middle 95 % of the sums of scores; the share counts how often a sum is the greatest. Null for few instances.
    """
    table = cells.pivot("checksum", index="solver", values="score").sort("solver").fill_null(0.0)
    scores = table.drop("solver").to_numpy()
    count = scores.shape[1]
    where = cells.select(_RANKING).row(0)
    if count < FEWEST_RESAMPLED:
        return [(*where, solver, None, None, None) for solver in table["solver"]]
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=RESAMPLES)
    sums = drawn @ scores.T
    low, high = np.percentile(sums, [2.5, 97.5], axis=0)
    first = (sums >= sums.max(axis=1, keepdims=True) - 1e-9).mean(axis=0)
    return [
        (*where, solver, *map(float, firm)) for solver, *firm in zip(table["solver"], low, high, first, strict=True)
    ]


# ---------------------------------------------------------------- curves


def _weighted(runs: pl.DataFrame, instances: pl.DataFrame) -> pl.DataFrame:
    """Solver runs with the weight of each in its division: the instances weigh alike, and so do the seeds of one."""
    size = instances.group_by(_RANKING).agg(instances=pl.len())
    weight = 1 / (pl.col("instances") * pl.len().over(_CELL))
    return runs.filter(pl.col("kind") == "solver").join(size, on=_RANKING).with_columns(weight=weight)


def _steps(rows: pl.DataFrame, at: str, gain: pl.Expr, total: str) -> pl.DataFrame:
    """Sum gains over all rows up to each value of ``at``, a curve a division and solver."""
    steps = rows.group_by(*_ENTRY, at).agg(gain.sum().alias(total)).sort(*_ENTRY, at)
    return steps.with_columns(pl.col(total).cum_sum().over(_ENTRY))


def _profiles(runs: pl.DataFrame, instances: pl.DataFrame) -> pl.DataFrame:
    solved = _weighted(runs, instances).filter(pl.col("score") > 0).with_columns(ratio=1 / pl.col("score"))
    return _steps(solved, "ratio", pl.col("weight"), "share")


def _anytime(runs: pl.DataFrame, instances: pl.DataFrame, incumbents: pl.DataFrame) -> pl.DataFrame:
    weighted = _weighted(runs, instances).select(*_ENTRY, "checksum", "weight", run="id")
    known = instances.select("checksum", "best_cost_float")
    cost, best = pl.col("cost_float"), pl.col("best_cost_float")
    score = pl.when(cost <= best).then(1.0).otherwise(best / cost).clip(0.0, 1.0)
    reached = (
        incumbents.filter((pl.col("feasible") == 1) & cost.is_not_null())
        .join(weighted, on="run", maintain_order="left")
        .join(known, on="checksum", maintain_order="left")
        .with_columns(score=score.cum_max().over("run"))
        .with_columns(gain=pl.col("score") - pl.col("score").shift(1, fill_value=0.0).over("run"))
        .filter(pl.col("gain") > 0)
    )
    return _steps(reached, "time_s", pl.col("gain") * pl.col("weight"), "score")


# ---------------------------------------------------------------- what to know before comparing


def _count_runs(rows: pl.DataFrame, runs: pl.DataFrame, key: Mapping[str, str]) -> pl.DataFrame:
    """Add to campaigns or machines the number of their runs; ``key`` maps columns of ``runs`` to theirs."""
    counted = runs.group_by(list(key)).agg(runs=pl.len()).rename(key)
    names = list(key.values())
    return rows.join(counted, on=names, how="left").with_columns(pl.col("runs").fill_null(0)).sort(names)


_Note = tuple[str, str | None, str]


def _notes(
    everything: pl.DataFrame, runs: pl.DataFrame, instances: pl.DataFrame, hosts: pl.DataFrame, expected: pl.DataFrame
) -> pl.DataFrame:
    notes = [
        *_limit_notes(runs),
        *_backend_notes(runs),
        *_host_notes(runs, hosts),
        *_disturbance_notes(runs, hosts),
        *_missing_notes(expected),
        *_dropped_notes(everything, runs),
        *_name_notes(instances),
    ]
    return _frame(("track", "instance", "note"), notes).sort("track", "instance", "note", nulls_last=False)


def _limit_notes(runs: pl.DataFrame) -> list[_Note]:
    """Runs of one kind on one instance under unequal limits: a note each, and one for the track."""
    most = pl.col("cores") * pl.col("timeout_s") + 1  # what a run can use of CPU time that has no limit on it
    cpu = pl.min_horizontal("cpu_limit_s", most).fill_null(most)
    limits = pl.struct("timeout_s", "cores", "memory_mib", cpu_s=cpu).unique().sort().alias("limits")
    mixed = runs.group_by("track", "instance", "kind").agg(limits).filter(pl.col("limits").list.len() > 1)
    notes: list[_Note] = []
    for track, instance, kind, unequal in mixed.iter_rows():
        words = [_limits(**limit) for limit in unequal]
        notes.append((track, instance, f"Its {kind} runs had different limits: {'; '.join(words)}."))
    for track, count in mixed.group_by("track").agg(pl.col("instance").n_unique()).iter_rows():
        notes.append(
            (track, None, f"Runs under different time, core or memory limits are compared on {count} of its instances.")
        )
    return notes


def _limits(timeout_s: float, cores: int, memory_mib: float, cpu_s: float) -> str:
    cpu = f", {cpu_s:g} s of CPU time" if cpu_s < cores * timeout_s else ""
    return f"{timeout_s:g} s, {cores} core{'s' if cores > 1 else ''}, {memory_mib:g} MiB{cpu}"


def _backend_notes(runs: pl.DataFrame) -> list[_Note]:
    """Runs whose limits were held in different ways."""
    backends = runs.filter(pl.col("backend") != "").group_by("track").agg(pl.col("backend").unique().sort())
    return [
        (track, None, f"The limits of its runs were held in different ways: {', '.join(names)}.")
        for track, names in backends.iter_rows()
        if len(names) > 1
    ]


def _with_hosts(runs: pl.DataFrame, hosts: pl.DataFrame) -> pl.DataFrame:
    """Track of every run, and ``facts`` and ``disturbances`` of its machine."""
    key = ["campaign", "host"]
    return runs.select("track", *key).join(hosts.rename({"name": "host"}), on=key)


def _host_notes(runs: pl.DataFrame, hosts: pl.DataFrame) -> list[_Note]:
    """Runs from machines that differ in processor, cores or memory."""
    machine = pl.col("facts").map_elements(lambda facts: _machine(json.loads(facts)), pl.String)
    used = _with_hosts(runs, hosts).group_by("track").agg(machine.unique().sort())
    return [
        (track, None, f"Runs from {len(names)} machines are compared: {'; '.join(names)}.")
        for track, names in used.iter_rows()
        if len(names) > 1
    ]


def _disturbance_notes(runs: pl.DataFrame, hosts: pl.DataFrame) -> list[_Note]:
    """Runs from machines on which something was found after their campaign."""
    found = _with_hosts(runs, hosts).filter(pl.col("disturbances") != "[]")
    return [
        (
            track,
            None,
            f"The machine was disturbed in a campaign with {count} of its runs: {' '.join(json.loads(words))}",
        )
        for track, words, count in found.group_by("track", "disturbances").len().iter_rows()
    ]


def _machine(host: Mapping[str, Any]) -> str:
    return f"{host.get('cpu', 'unknown processor')}, {host.get('cores', '?')} cores, {host.get('memory_mib', '?')} MiB"


def _missing_notes(expected: pl.DataFrame) -> list[_Note]:
    missing = expected.filter(pl.col("missing") > 0).sort("solver").group_by(_RANKING, maintain_order=True)
    return [
        (track, None, f"Not run on every instance{of}, scored 0 where they were not: {', '.join(names)}.")
        for track, division, names in missing.agg("solver").iter_rows()
        for of in [f" of {division}" if division else ""]
    ]


def _dropped_notes(everything: pl.DataFrame, runs: pl.DataFrame) -> list[_Note]:
    left_out = everything.join(runs, on="id", how="anti").group_by("track").len()
    return [
        (track, None, f"{count} runs of older solver versions, or repeated since, count nowhere.")
        for track, count in left_out.iter_rows()
    ]


def _name_notes(instances: pl.DataFrame) -> list[_Note]:
    shared = instances.filter(pl.col("instance") != pl.col("id"))
    return [
        (track, None, f"{count} contents or options share the id {name}, they are told apart by checksum.")
        for track, name, count in shared.group_by("track", "id").len().iter_rows()
    ]
