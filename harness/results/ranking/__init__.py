"""Scores of runs, instances, solvers and bound methods, computed on polars frames.

Costs and bounds are compared as exact fractions of their stored decimal text, never as floats; only ratios are floats.
The words:

score       least known cost of the instance / cost of the run, the contest's score (1 for a cost that counts as least
            or proven); 0 without a solution, but null for a solver that declined the whole division, and for a run
            that was killed from outside: as if it were missing
certified   greatest trusted lower bound of the instance / cost of the run: at least this share of the optimum is
            reached (1 if that proves the cost optimal, and only then)
gap         cost / trusted lower bound - 1; 0 if the bound proves the cost optimal, infinite if it lies beyond float64,
            null for a bound of 0 or less that proves nothing
division    instances of a track with the same modes, see `shardmark.instances.options`; all sums, means and ranks are
            within one division
known cost  the least of the verified costs of all current runs, bound methods included, of the published best and of
            the record, see `shardmark.harness.records`
trusted     of a bound: not above the known cost, see `shardmark.harness.results.claims`
current     of a run: asked for by the newest campaign that names its solver, instance content and seed
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from shardmark.harness.records.best import by_checksum
from shardmark.harness.records.history import FOLDER
from shardmark.harness.results.database import Store
from shardmark.harness.results.ranking.cases import cases_of, contradictions_of, published_results
from shardmark.harness.results.ranking.curves import anytime_of, improvements, profiles_of
from shardmark.harness.results.ranking.frames import ENTRY, left_join, load
from shardmark.harness.results.ranking.history import History, history_of
from shardmark.harness.results.ranking.methods import (
    bound_totals,
    counted,
    declined_divisions,
    expected_runs,
    ranked,
    solver_totals,
    with_facts,
    without_declined_scores,
    without_killed_scores,
)
from shardmark.harness.results.ranking.notes import notes_on
from shardmark.harness.results.ranking.scores import best_first, method_results, scored_instances, scored_runs
from shardmark.harness.results.ranking.selection import (
    current_runs,
    referred_rows,
    reports_of,
    track_titles,
    with_divisions,
    with_notes,
    with_run_counts,
    with_unique_names,
)


@dataclass(frozen=True)
class Tables:
    """All tables that pages show. Times are in seconds.

    Every cost and bound has two columns: ``cost`` is a float, to compute with; ``cost_exact`` is its exact text.

    ``store``           the database they were read from, for logs and solutions
    ``tracks``          track -> a sentence about it; the tracks that have runs, in the order of the project
    ``divisions``       track -> the names of its divisions that have runs, in the order of their modes; one without a
                        name, "", if the track has no modes. All tables of instances, runs and methods have the
                        column ``division``
    ``runs``            one row per current run, by track and instance, the best of each instance first: the columns of
                        the store less its log, ``checksum`` and ``instance`` (unique in its track), ``division``, and
                        ``score certified gap best proven time_to_best_s bound_trusted bound_score bound_best
                        bound_proves grade time_to_bound_s early``; ``grade`` of a trusted bound, see
                        `grades`; ``early``: of a run with a solution, True if one that costs at most 5 % more than its
                        last came within a tenth of its time limit
    ``instances``       one row per instance: ``track division instance checksum summary published`` (both JSON),
                        ``about`` (its note in the catalog, or ""), ``best_cost best_cost_exact
                        best_by lower_bound lower_bound_exact bound_by grade`` (lists of names, including "published",
                        "known beforehand" and "records"), ``gap proven runs solved``
    ``results``         one row per method and instance, seeds averaged: ``kind runs solved early score certified best
                        proven time_to_best_s bounded bound_score bound_best bound_proves time_to_bound_s``
    ``solvers``         the rankings, one row per division and solver: ``rank``, its facts (``kind hash source
                        description params``), ``score_sum score_low score_high first_share score_geomean certified_sum
                        certified_geomean certified_instances instances covered coverage runs solved early expected
                        best proven time_to_best_s``
    ``bounds``          the same for bound methods, and for solvers that have a trusted bound there: ``bound_sum
                        bound_geomean bound_best bound_proves contradictions instances covered coverage runs bounded
                        expected time_to_bound_s``
    ``declined``        one row per division and method that declined every run there and is not ranked in it: its
                        facts, ``runs``
    ``profiles``        ``track division solver ratio share``: share of the division's instances solved at a cost of at
                        most ``ratio`` x the known cost; one step per row
    ``anytime``         ``track division solver time_s score``: mean score over the division's instances at that time
    ``incumbents``      ``run number time_s feasible cost cost_exact``, in the order of arrival
    ``reported``        ``run number time_s value value_exact``: lower bounds, in the order of arrival
    ``published``       one row per published result, shown next to ours and counted nowhere: ``track
                        division instance checksum who role about made kind`` ("cost" or "bound"), ``value
                        value_exact`` (null if nothing feasible was found), ``of_cost of_bound`` (the value over
                        the least cost and over the greatest bound of the runs here), ``better`` (than all runs here),
                        ``contradicted`` (by one of them)
    ``contradictions``  one row per bound above a known cost: ``track division instance checksum solver seed run bound
                        bound_exact cost cost_exact against``; ``solver`` and ``against`` may be "published" or
                        "records"
    ``campaigns``       ``id started ended command version executor jobs`` and ``runs``, current ones
    ``hosts``           one row per machine of a campaign: ``campaign name facts disturbances`` (JSON, disturbances null
                        if not checked) and ``runs``, current ones
    ``notes``           ``track instance note``: caveats for comparisons; ``instance`` may be null
    ``history``         runs that are no longer current, and which campaign asked for which runs
    """

    store: Store
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
    history: History

    def __repr__(self) -> str:
        rows = [f"{name} {frame.height}" for name, frame in vars(self).items() if isinstance(frame, pl.DataFrame)]
        return f"Tables(rows: {', '.join(rows)})"

    def costs_over_time(self) -> dict[str, list[tuple[float, float]]]:
        """Return (time, cost) of each feasible solution that improves on all before, by run; empty without any."""
        return improvements(self.incumbents.filter(pl.col("feasible") == 1), "cost", pl.Expr.cum_min)

    def bounds_over_time(self) -> dict[str, list[tuple[float, float]]]:
        """Return (time, value) of each lower bound that improves on all before, by run; empty without any."""
        return improvements(self.reported, "value", pl.Expr.cum_max)


def tables(store: Store, only: Collection[str] | None = None, records: Path = FOLDER) -> Tables:
    """Score a results database, or its instances whose ids are in ``only``: one pass over the runs, then columns.

    ``records`` is the folder of the records that count as known.
    """
    everything = load(store, "runs", without=("log",)).filter(
        pl.lit(only is None) | pl.col("instance").is_in(list(only or []))
    )
    everything = everything.drop("instance")
    instances, facts, campaigns = referred_rows(store, everything)
    asked = load(store, "matrix")
    runs = current_runs(everything, asked)
    dropped = everything.join(runs, on="id", how="anti")
    del everything  # as large as all that follows
    instances = with_unique_names(instances.join(runs, on="checksum", how="semi"))
    instances, divisions = with_divisions(with_notes(instances))
    named = instances.select("checksum", "instance", "division")
    runs = left_join(runs, named, ["checksum"])
    incumbents = reports_of(store, "incumbents", runs)
    reported = reports_of(store, "bounds", runs)
    proofs = load(store, "certificates", proven=pl.String, bytes=pl.Int64, check_s=pl.Float64)
    cases = cases_of(instances, runs, by_checksum(records), proofs)
    runs = scored_runs(runs, cases, incumbents, reported)
    instances = scored_instances(instances, runs, cases)
    declined = declined_divisions(counted(runs))
    runs = without_killed_scores(without_declined_scores(runs, declined))
    results = method_results(counted(runs))
    runs = best_first(runs)
    hosts = with_run_counts(load(store, "hosts"), runs, {"campaign": "campaign", "host": "name"})
    taken = results.join(declined, on=ENTRY, how="anti")
    expected = expected_runs(counted(runs), instances).join(declined, on=ENTRY, how="anti")
    contradictions, published = contradictions_of(instances, cases), published_results(instances, cases)
    del cases  # of the size of the runs
    return Tables(
        store=store,
        tracks=track_titles(runs),
        divisions=divisions,
        runs=runs,
        instances=instances,
        results=results,
        solvers=with_facts(ranked(solver_totals(taken, expected), taken), runs, facts),
        bounds=with_facts(bound_totals(taken, expected, contradictions), runs, facts),
        declined=with_facts(declined, runs, facts),
        profiles=profiles_of(counted(runs), instances),
        anytime=anytime_of(counted(runs), instances, incumbents),
        incumbents=incumbents,
        reported=reported,
        published=published,
        contradictions=contradictions,
        campaigns=with_run_counts(campaigns, runs, {"campaign": "id"}),
        hosts=hosts,
        notes=notes_on(dropped, runs, instances, hosts, expected),
        history=history_of(store, dropped, instances, (incumbents, reported), asked),
    )
