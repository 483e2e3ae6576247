"""The runs as scripts of columns, which the page of comparisons loads on demand.

A page that is opened from disk may load scripts but not fetch data, so each file assigns to one global object, made by
`INDEX`. There is a file with the runs of each method, all versions, and one with the curves of each instance.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import polars as pl

from shardmark.harness.results.ranking import Tables
from shardmark.leaderboard.explore.newest import newest_solver
from shardmark.leaderboard.pages.cells import Parts
from shardmark.leaderboard.pages.tracks import Row
from shardmark.leaderboard.text import page_of, printable, slug

INDEX = "data/js/index.js"
METHOD = ["track", "solver"]
AT_ONCE = 50  # instances whose curves are in memory at once
MOST_POINTS = 40  # of a curve; a screen shows hardly more steps
DIGITS = 9  # significant digits of values on curves

File = tuple[str, str]


def files(tables: Tables) -> Iterator[File]:
    """Yield path and content of every file; the same tables give the same bytes."""
    runs = all_runs(tables)
    methods = Parts(runs, *METHOD)
    yield INDEX, f"const shardmarkData={_json(_index(tables, methods))};\n"
    for key in methods:
        name = "/".join(map(printable, key))
        yield runs_file(*key), f"shardmarkData.runs[{_json(name)}]={_json(_columns(methods[key]))};\n"
    yield from _curve_files(tables, runs)


def runs_file(track: str, method: str) -> str:
    """Path of the file with the runs of a method."""
    return f"data/js/{slug(track)}/runs/{slug(method)}.js"


def curves_file(track: str, instance: str) -> str:
    """Path of the file with the curves of an instance."""
    return f"data/js/{slug(track)}/curves/{slug(instance)}.js"


def all_runs(tables: Tables) -> pl.DataFrame:
    """Return current and older runs in one frame, the current ones last.

    ``id track solver kind solver_hash instance place seed status value score found_s wall_s asked``. ``place`` is the
    row of the instance among those of its track; ``value`` is the cost, or the trusted lower bound of a bound method;
    ``score`` is null if the method declined the whole ranking; ``asked`` lists the campaigns that asked for the run.
    """
    bound = pl.col("kind") == "bound"
    trusted = pl.col("bound_trusted").fill_null(False)
    declined = pl.col("status") == "declined"
    frames = [
        frame.select(
            *("id", *METHOD, "kind", "solver_hash", "checksum", "instance", "seed", "status", "campaign"),
            value=pl.when(~bound).then("cost").when(trusted).then("lower_bound"),
            score=pl.when(~bound).then("score").when(~declined).then(pl.col("bound_score").fill_null(0.0)),
            found_s=pl.when(~bound).then("time_to_best_s").when(trusted).then("time_to_bound_s"),
            wall_s="wall_s",
        )
        for frame in (tables.history.runs, tables.runs)
    ]
    places = tables.instances.select("checksum", place=pl.int_range(pl.len()).over("track"))
    runs = pl.concat(frames)
    asked = pl.concat([runs.select("id", "campaign"), tables.history.asked.select(id="run", campaign="campaign")])
    asked = asked.group_by("id").agg(asked=pl.col("campaign").unique().sort())
    return (
        runs.join(places, on="checksum", how="left", maintain_order="left")
        .join(asked, on="id", how="left", maintain_order="left")
        .with_columns(
            score=pl.col("score").round(12),
            found_s=pl.col("found_s").round(4),
            wall_s=pl.col("wall_s").round(3),
        )
    )


def _versions(runs: pl.DataFrame) -> list[str]:
    """Return the versions of a method, the newest first."""
    return runs["solver_hash"].unique(maintain_order=True).to_list()[::-1]


def _index(tables: Tables, methods: Parts) -> Row:
    """Return the tracks with their instances and methods, and the campaigns."""
    newest = {track: printable(newest_solver(tables, track) or "") for track in tables.tracks}
    tracks: Row = {
        track: {"instances": _instances(tables, track), "methods": [], "newest": newest[track]}
        for track in tables.tracks
    }
    for track, method in methods:
        runs = methods[track, method]
        tracks[track]["methods"].append(
            {
                "name": printable(method),
                "kind": runs["kind"][-1],
                "file": runs_file(track, method),
                "page": page_of("solvers", track, method),
                "versions": [version[:12] for version in _versions(runs)],
                "campaigns": sorted(runs["asked"].explode().unique()),
            }
        )
    columns = ("id", "started", "command")
    campaigns = [
        {"id": number, "started": started[:16].replace("T", " "), "command": " ".join(json.loads(command))}
        for number, started, command in tables.campaigns.select(columns).iter_rows()
    ]
    return {"tracks": tracks, "campaigns": campaigns, "runs": {}, "curves": {}}


def _instances(tables: Tables, track: str) -> Row:
    """Return the instances of a track as columns."""
    rows = tables.instances.filter(pl.col("track") == track)
    names = rows["instance"].to_list()
    return {
        "name": list(map(printable, names)),
        "division": rows["division"].to_list(),
        "best": rows["best_cost"].to_list(),
        "page": [page_of("instances", track, name) for name in names],
        "curves": [curves_file(track, name) for name in names],
    }


def _columns(runs: pl.DataFrame) -> Row:
    """Return the runs of a method as columns; versions, statuses and lists of campaigns are numbered."""
    versions = _versions(runs)
    statuses = sorted(set(runs["status"]))
    asked = runs["asked"].to_list()
    sets = sorted(set(map(tuple, asked)))
    number_of = {numbers: place for place, numbers in enumerate(sets)}
    return {
        "versions": [version[:12] for version in versions],
        "statuses": statuses,
        "campaigns": sets,
        "version": _numbered(runs["solver_hash"], versions),
        "status": _numbered(runs["status"], statuses),
        "asked": [number_of[tuple(numbers)] for numbers in asked],
        "instance": runs["place"].to_list(),
        **{column: runs[column].to_list() for column in ("seed", "value", "score", "found_s", "wall_s")},
    }


def _numbered(column: pl.Series, words: list[str]) -> list[int]:
    return column.replace_strict(words, list(range(len(words))), return_dtype=pl.Int64).to_list()


def _curve_files(tables: Tables, runs: pl.DataFrame) -> Iterator[File]:
    """Yield a file per instance: a list per run with its method, version, seed, times and values."""
    columns = ("id", "track", "instance", "place", "kind", "solver", "solver_hash", "seed", "value")
    runs = runs.filter(pl.col("value").is_not_null()).select(columns)
    costs, bounds = _reports(tables)
    for track in tables.tracks:
        for start in range(0, tables.instances.height, AT_ONCE):
            some = (pl.col("track") == track) & pl.col("place").is_between(start, start + AT_ONCE - 1)
            yield from _some_curve_files(runs.filter(some), costs, bounds)


def _reports(tables: Tables) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return costs and lower bounds of all runs, older ones included, as ``run time_s value``."""
    history = tables.history
    feasible = pl.col("feasible") == 1
    costs = [
        frame.filter(feasible).select("run", "time_s", value="cost")
        for frame in (history.incumbents, tables.incumbents)
    ]
    bounds = [frame.select("run", "time_s", value="value") for frame in (history.reported, tables.reported)]
    return pl.concat(costs), pl.concat(bounds)


def _some_curve_files(runs: pl.DataFrame, costs: pl.DataFrame, bounds: pl.DataFrame) -> Iterator[File]:
    """Yield the files of the instances of some runs of a track."""
    parts = []
    for kind, reports, best in (("solver", costs, pl.Expr.cum_min), ("bound", bounds, pl.Expr.cum_max)):
        own = runs.filter(pl.col("kind") == kind)
        steps = _steps(reports.join(own, left_on="run", right_on="id", how="semi", maintain_order="left"), best)
        parts.append(own.join(steps, left_on="id", right_on="run"))
    drawn = pl.concat(parts)
    whose = pl.concat_str("method", "version", "seed", separator=",")
    files = (
        drawn.with_columns(method=_quoted(drawn["solver"]), version=_quoted(drawn["solver_hash"].str.head(12)))
        .with_columns(text=pl.format("[{},[{}],[{}]]", whose, "times", "values"))
        .sort("track", "place", "solver", "solver_hash", "seed", "id")
        .group_by("track", "instance", maintain_order=True)
        .agg(pl.col("text").str.join(",\n"))
    )
    for track, instance, body in files.iter_rows():
        yield (
            curves_file(track, instance),
            f"shardmarkData.curves[{_json(printable(f'{track}/{instance}'))}]=[\n{body}\n];\n",
        )


def _steps(reports: pl.DataFrame, best: Any) -> pl.DataFrame:
    """Return ``run times values`` of the reports better than all before them, as lists in text."""
    so_far = best(pl.col("value")).over("run")
    place, last = pl.int_range(pl.len()).over("run"), pl.len().over("run") - 1
    every = (pl.len().over("run") / MOST_POINTS).ceil()
    return (
        reports.filter(pl.col("value").is_not_null())
        .filter((so_far != so_far.shift(1).over("run")).fill_null(True))
        .filter((place % every == 0) | (place == last))
        .group_by("run", maintain_order=True)
        .agg(
            times=pl.col("time_s").round(3).cast(pl.String).str.join(","),
            values=pl.col("value").round_sig_figs(DIGITS).cast(pl.String).str.join(","),
        )
    )


def _quoted(column: pl.Series) -> pl.Series:
    """Return names as literals of a script; each is quoted once, as there are few."""
    names = column.unique().to_list()
    return column.replace_strict(names, [_json(printable(name)) for name in names], return_dtype=pl.String)


def _json(value: Any) -> str:
    """Return a value as a literal of a script, ASCII only."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
