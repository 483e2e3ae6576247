"""Pictures of the best solution found on each instance."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from shardmark.harness import verify
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.database import Store
from shardmark.harness.results.ranking import Tables
from shardmark.harness.results.records import number
from shardmark.instances import InputError, catalog, track_module
from shardmark.leaderboard.drawings import (
    latency_layout,
    loads_layout,
    plan_layout,
    schedule_layout,
    split_layout,
)
from shardmark.leaderboard.drawings.choices import choices_layout
from shardmark.leaderboard.drawings.pictures import Pictures
from shardmark.leaderboard.report import MAX_NODES
from shardmark.leaderboard.text import exact

#: The option that names an instance, with its value in one word.
JOINED = re.compile("(?:--instance=|-i)(.+)")
#: Reasons for not drawing a solution.
MISSING = "The best solution found here is not drawn: the instance's file is missing or has changed."
NONE = "The best solution found here is not drawn: no run found one."
UNFIT = "The best solution found here is not drawn: it is not stored, or does not pass verification again."


def best(store: Store, scored: Tables) -> dict[str, Pictures | str]:
    """Pictures of the solution of the least cost of each instance, or the reason for none, by checksum.

    There is none if the graph is too large, or if its file (of a catalog entry, or named by a stored command, from the
    current folder) is missing; nor if no solution is stored, or it does not pass verification again.
    """
    least = scored.runs.filter(pl.col("cost").is_not_null()).sort("cost", "time_to_best_s", "id")
    runs = least.unique("checksum", keep="first", maintain_order=True).rows_by_key("checksum", named=True, unique=True)
    entries = {(entry.track, entry.id): entry for entry in catalog.entries()}
    files = _named(scored)
    found: dict[str, Pictures | str] = {}
    for row in scored.instances.iter_rows(named=True):
        run = runs.get(row["checksum"])
        if run is None:
            found[row["checksum"]] = NONE
        else:
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
            joined = JOINED.fullmatch(word)
            named += [word] if before in ("-i", "--instance") else [joined[1]] if joined else []
    return [Path(name) for name in dict.fromkeys(named) if os.path.isfile(name)]


def _best(store: Store, run: Mapping[str, Any], row: Mapping[str, Any], problems: Sequence[Problem]) -> Pictures | str:
    summary = json.loads(row["summary"])
    nodes = summary.get("nodes")
    if not isinstance(nodes, int) or nodes > MAX_NODES:
        return f"The best solution found here is not drawn: graphs are drawn up to {MAX_NODES:,} nodes."
    with suppress(InputError):  # the file or the solution has changed
        instance = _instance(problems, row["checksum"], summary)
        if instance is None:
            return MISSING
        solution = store.solution(run["id"])
        if solution is not None and verify.verify(instance, solution).feasible:
            words = f"Found by {run['solver']}, cost {exact(run['cost_exact'])}."
            bound = None if row["lower_bound"] is None else number(row["lower_bound_exact"])
            return pictures_of(instance, solution, bound=bound, caption=words) or UNFIT
    return UNFIT


def pictures_of(instance: Any, solution: Any, *, bound: float | None, caption: str = "") -> Pictures:
    """The pictures of a verified solution, the first with a caption; none if there is nothing to draw."""
    track = instance.track
    if verify.has_times(track):
        schedule = schedule_layout.drawing(instance, solution, bound=bound, caption=caption)
        return () if schedule is None else (schedule,)
    if verify.has_choices(track):
        return choices_layout.drawings(instance, solution, bound=bound, caption=caption) or ()
    alone = None if getattr(instance, "objective", "") == "step" else bound  # a load is no time of a batch
    over_time = latency_layout.drawing(instance, solution, bound=bound, title="Schedule of a sample", caption=caption)
    first = over_time or loads_layout.drawing(instance, solution, bound=alone, title="Loads", caption=caption)
    of_plan = (plan_layout.memory(instance, solution), plan_layout.timeline(instance, solution))
    split = split_layout.drawing(instance, solution, title="Nodes", caption="" if first else caption)
    return tuple(picture for picture in (first, *of_plan, split) if picture is not None)


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
