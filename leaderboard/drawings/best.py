"""Drawings of the best solution found on each instance: splits and schedules."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from harness import verify
from harness.campaign.problems import Problem
from harness.results.database import Store
from harness.results.ranking import Tables
from instances import InputError, catalog, track_module
from leaderboard.drawings import schedule_layout, split_layout
from leaderboard.report import MAX_NODES, MAX_VERTICES, Schedule, Split

#: Reasons for not drawing a solution.
MISSING = "The best solution found here is not drawn: the instance's file is missing or has changed."
UNFIT = "The best solution found here is not drawn: it is not stored, or does not pass verification again."


def best(store: Store, scored: Tables) -> dict[str, Split | Schedule | str]:
    """The drawing of the least cost of each instance of a track with drawings, or the reason for none, by checksum.

    There is none if the graph is too large, or if its file (of a catalog entry, or named by a stored command, from the
    current folder) is missing; nor if no solution is stored, or it does not pass verification again.
    """
    least = scored.runs.filter(pl.col("cost").is_not_null()).sort("cost_float", "time_to_best_s", "id")
    runs = least.unique("checksum", keep="first", maintain_order=True).rows_by_key("checksum", named=True, unique=True)
    entries = {(entry.track, entry.id): entry for entry in catalog.entries()}
    files = _named(scored)
    found: dict[str, Split | Schedule | str] = {}
    for row in scored.instances.iter_rows(named=True):
        run = runs.get(row["checksum"])
        if run and _max_nodes(row["track"]):
            entry = entries.get((row["track"], row["id"]))
            problems = [Problem(row["id"], path, row["track"]) for path in files if path.name == row["id"]]
            with suppress(InputError):  # the file has changed
                path = None if entry is None else catalog.at_hand(entry)
                problems += [Problem.of(entry, path)] if entry and path else []
            found[row["checksum"]] = _best(store, run, row, problems)
    return found


def _named(scored: Tables) -> list[Path]:
    """The files that commands of campaigns name as instances, if they still exist."""
    named = []
    for command in scored.campaigns["command"]:
        for before, word in pairwise(["", *json.loads(command)]):
            option, _, value = word.partition("=")
            named += [word] if before == "--instance" else [value] if option == "--instance" else []
    return [Path(name) for name in dict.fromkeys(named) if os.path.isfile(name)]


def _max_nodes(track: str) -> int:
    """The greatest number of nodes that is drawn in a track, 0 for a track without drawings."""
    return MAX_NODES if verify.has_parts(track) else MAX_VERTICES if verify.has_times(track) else 0


def _best(
    store: Store, run: Mapping[str, Any], row: Mapping[str, Any], problems: Sequence[Problem]
) -> Split | Schedule | str:
    summary = json.loads(row["summary"])
    nodes, track = summary.get("nodes"), row["track"]
    if not isinstance(nodes, int) or nodes > _max_nodes(track):
        return f"The best solution found here is not drawn: graphs are drawn up to {_max_nodes(track):,} nodes."
    with suppress(InputError):  # the file or the solution has changed
        instance = _instance(problems, row["checksum"], summary)
        if instance is None:
            return MISSING
        solution = store.solution(run["id"])
        if solution is not None and verify.verify(instance, solution).feasible:
            words = f"Found by {run['solver']}, cost {run['cost_float']:,.6g}."
            if verify.has_parts(track):
                return split_layout.drawing(instance, solution, caption=words) or UNFIT
            return schedule_layout.drawing(instance, solution, bound=row["lower_bound_float"], caption=words) or UNFIT
    return UNFIT


def _instance(problems: Sequence[Problem], checksum: str, summary: Mapping[str, Any]) -> Any:
    """The instance with this checksum, read from one of the files with its options or the stored ones."""
    for problem in problems:
        options = track_module(problem.track or "").OPTIONS
        usual = {name: option.default for name, option in options.items()} | {**problem.options}
        stored = {name: summary[name] for name in usual if name in summary and summary[name] != usual[name]}
        for tried in (problem, replace(problem, options={**problem.options, **stored})):
            if tried.checksum == checksum:
                return tried.instance
    return None
