"""Drawings of the best solution that the runs on each instance found: of splits, and of schedules."""

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
from leaderboard.report import MOST_NODES, MOST_RUNS, Schedule, Split

#: Why a solution is not drawn.
MISSING = "The best solution found here is not drawn: the file of the instance, with what it held, is not at hand."
UNFIT = "The best solution found here is not drawn: it is not stored, or does not pass verification again."


def best(store: Store, scored: Tables) -> dict[str, Split | Schedule | str]:
    """Drawings of the least cost of each instance of a track that has some, by checksum; or words for why not.

    There is none where the graph is too large, or its file is not at hand: that of an entry of the catalog, or one that
    a stored command names, from the current folder. Nor where no solution is stored, or it does not pass verification
    again.
    """
    least = scored.runs.filter(pl.col("cost").is_not_null()).sort("cost_float", "time_to_best_s", "id")
    runs = least.unique("checksum", keep="first", maintain_order=True).rows_by_key("checksum", named=True, unique=True)
    entries = {(entry.track, entry.id): entry for entry in catalog.entries()}
    files = _named(scored)
    found: dict[str, Split | Schedule | str] = {}
    for row in scored.instances.iter_rows(named=True):
        run = runs.get(row["checksum"])
        if run and _most(row["track"]):
            entry = entries.get((row["track"], row["id"]))
            problems = [Problem(row["id"], path, row["track"]) for path in files if path.name == row["id"]]
            with suppress(InputError):  # of a file that is not what it was
                path = None if entry is None else catalog.at_hand(entry)
                problems += [Problem.of(entry, path)] if entry and path else []
            found[row["checksum"]] = _best(store, run, row, problems)
    return found


def _named(scored: Tables) -> list[Path]:
    """The files that commands of campaigns name as instances, as far as they are there."""
    named = []
    for command in scored.campaigns["command"]:
        for before, word in pairwise(["", *json.loads(command)]):
            option, _, value = word.partition("=")
            named += [word] if before == "--instance" else [value] if option == "--instance" else []
    return [Path(name) for name in dict.fromkeys(named) if os.path.isfile(name)]


def _most(track: str) -> int:
    """Nodes of the largest graph of a track of which there is a drawing, 0 if there is none of any."""
    return MOST_NODES if verify.has_parts(track) else MOST_RUNS if verify.has_times(track) else 0


def _best(
    store: Store, run: Mapping[str, Any], row: Mapping[str, Any], problems: Sequence[Problem]
) -> Split | Schedule | str:
    summary = json.loads(row["summary"])
    nodes, track = summary.get("nodes"), row["track"]
    if not isinstance(nodes, int) or nodes > _most(track):
        return f"The best solution found here is not drawn: that is done up to {_most(track):,} nodes."
    with suppress(InputError):  # of a file or a solution that is not what it was
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
    """The instance of this checksum that one of the files has with its options, or with others that were stored."""
    for problem in problems:
        options = track_module(problem.track or "").OPTIONS
        usual = {name: option.default for name, option in options.items()} | {**problem.options}
        stored = {name: summary[name] for name in usual if name in summary and summary[name] != usual[name]}
        for tried in (problem, replace(problem, options={**problem.options, **stored})):
            if tried.checksum == checksum:
                return tried.instance
    return None
