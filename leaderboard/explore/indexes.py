"""The indexes: a page of every instance, and a page of every method in its newest version."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from shardmark.harness.results.ranking import Tables
from shardmark.instances import catalog
from shardmark.leaderboard.pages.site import Page, Site
from shardmark.leaderboard.pages.tracks import FAILED, Row

METHOD = ["track", "solver"]


def pages(site: Site) -> Iterator[Page]:
    """Yield the two indexes."""
    modes = any(track.named for track in site.tracks)
    yield site.page("instances.html", "instances.html", rows=instance_rows(site.tables), modes=modes)
    yield site.page("solvers.html", "solvers.html", rows=solver_rows(site.tables))


def instance_rows(tables: Tables) -> list[Row]:
    """Return the rows of ``tables.instances`` with ``nodes edges suites machines`` added."""
    machines = _machines(tables, ["checksum"])
    suites = _suites(tables)
    rows = []
    for row in tables.instances.iter_rows(named=True):
        facts = json.loads(row["summary"])
        sizes = {size: facts.get(size) for size in ("nodes", "edges")}
        held = {"suites": suites[row["checksum"]], "machines": machines[(row["checksum"],)]}
        rows.append(row | sizes | held)
    return rows


def solver_rows(tables: Tables) -> list[Row]:
    """Return one row per method that has runs, ordered by track, kind and best rank.

    ``rank`` is the best rank over the method's rankings and ``rank_words`` describes all of them; ``score`` is None
    unless there is exactly one.
    """
    ranked: dict[tuple[str, str], list[Row]] = defaultdict(list)
    bounds = tables.bounds.filter(pl.col("kind") == "bound")
    for frame in (tables.solvers, bounds, tables.declined):
        for row in frame.iter_rows(named=True):
            ranked[row["track"], row["solver"]].append(row)
    entrants = {tuple(key): count for *key, count in tables.solvers.group_by("track", "division").len().iter_rows()}
    machines, totals = _machines(tables, METHOD), _totals(tables)
    rows = [
        _solver_row(places, entrants) | totals[method] | {"machines": machines[method]}
        for method, places in ranked.items()
    ]
    last = float("inf")
    return sorted(rows, key=lambda r: (r["track"], r["kind"] == "bound", r["rank"] or last, r["solver"]))


def _solver_row(places: Sequence[Row], entrants: Mapping[tuple[str, str], int]) -> Row:
    """Facts about one method, and its places in the rankings added up."""
    ranks = [(row["rank"], entrants[row["track"], row["division"]]) for row in places if row.get("rank") is not None]
    counted = [row for row in places if "covered" in row]  # the others declined the whole division
    bound = places[0]["kind"] == "bound"
    best, proven, solved, total = (
        ("bound_best", "bound_proves", "bounded", "bound_sum") if bound else ("best", "proven", "solved", "score_sum")
    )
    sums = {key: sum(row[column] for row in counted) for key, column in (("best", best), ("proven", proven))}
    solved_runs, expected = (sum(row[column] for row in counted) for column in (solved, "expected"))
    return {
        **{key: places[0][key] for key in ("track", "solver", "kind", "description")},
        **sums,
        "rank": min((rank for rank, _ in ranks), default=None),
        "rank_words": _rank_words(ranks),
        "mean_score": counted[0][total] / counted[0]["instances"] if len(counted) == 1 else None,
        "solved": solved_runs,
        "expected": expected,
        "coverage": solved_runs / expected if expected else 0.0,
    }


def _rank_words(ranks: Sequence[tuple[int, int]]) -> str:
    if not ranks:
        return "–"
    if len(ranks) == 1:
        return "{} of {}".format(*ranks[0])
    low, high = min(ranks)[0], max(ranks)[0]
    return f"{low if low == high else f'{low} to {high}'} in {len(ranks)} rankings"


def _totals(tables: Tables) -> dict[tuple[str, str], Row]:
    """Return ``instances largest failed first suites`` of each method."""
    nodes = [json.loads(summary).get("nodes") for summary in tables.instances["summary"]]
    size = tables.instances.select("checksum").with_columns(pl.Series("nodes", nodes, pl.Int64, strict=False))
    done = pl.col("cost").is_not_null() | pl.col("bound_trusted").fill_null(False)
    rows = (
        tables.runs.select("checksum", *METHOD, "started", done=done, failed=FAILED)
        .join(size, on="checksum", how="left")
        .group_by(METHOD)
        .agg(
            pl.col("checksum").unique(),
            instances=pl.col("checksum").n_unique(),
            largest=pl.col("nodes").filter("done").max(),
            failed=pl.col("failed").sum(),
            first=pl.col("started").min(),
        )
    )
    suites = _suites(tables)
    order = list(dict.fromkeys(name for names in suites.values() for name in names))
    totals = {}
    for row in rows.iter_rows(named=True):
        own = {name for checksum in row.pop("checksum") for name in suites[checksum]}
        totals[row.pop("track"), row.pop("solver")] = row | {"suites": [name for name in order if name in own]}
    return totals


def _suites(tables: Tables) -> dict[str, Sequence[str]]:
    """Return the catalog's suites of each instance by checksum; none for another file or other options."""
    known = {(entry.track, entry.id): entry.suites for entry in catalog.entries()}
    rows = tables.instances.select("checksum", "track", "instance").iter_rows()
    return {checksum: known.get((track, name), ()) for checksum, track, name in rows}


def _machines(tables: Tables, key: Iterable[str]) -> dict[tuple[str, ...], list[str]]:
    """Return the classes of the machines that the runs of each key used, sorted by name."""
    names = [machine_class(json.loads(facts)) for facts in tables.hosts["facts"]]
    classes = tables.hosts.select("campaign", host="name").with_columns(pl.Series("machine", names, pl.String))
    used = (
        tables.runs.select(*key, "campaign", "host")
        .unique()
        .join(classes, on=["campaign", "host"])
        .group_by(list(key))
        .agg(pl.col("machine").unique().sort())
    )
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    found.update({tuple(names): machines for *names, machines in used.iter_rows()})
    return found


def machine_class(facts: Mapping[str, Any]) -> str:
    """Name the class of a machine: runs on machines of one class may be compared by their times."""
    return f"{facts.get('cpu', 'unknown processor')}, {facts.get('cores', '?')} cores"
