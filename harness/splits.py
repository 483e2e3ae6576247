"""Drawings of solutions that split the nodes: of any, and of the best one that the runs on each instance found."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import polars as pl

from harness import verify
from harness.report import MOST_NODES, Device, Split
from harness.run import Problem
from harness.score import Tables
from harness.store import Store
from instances import InputError, catalog, track_module
from instances.catalog import Entry


def drawing(instance: Any, solution: Any, *, title: str = "", caption: str = "") -> Split | None:
    """How a solution of a track with parts splits an instance; None if it is malformed."""
    parts = verify.parts(instance, solution)
    if parts is None:
        return None
    loads = [f"load {load:.6g}" for load in parts.loads] or [""] * len(parts.names)
    devices = [Device(*of) for of in zip(parts.names, loads, parts.on_cpus, strict=True)]
    edges = list(zip(instance.graph.tail.tolist(), instance.graph.head.tolist(), strict=True))
    return Split(instance.node_names, edges, parts.of, devices, title, caption)


def best(store: Store, scored: Tables) -> dict[str, Split]:
    """Drawings of the least cost that is stored with its solution, by the checksum of the instance.

    There is none where the graph is too large, or not that of an entry of the catalog whose file is at hand; nor where
    no solution is stored, or it does not pass verification again.
    """
    least = scored.runs.filter(pl.col("cost").is_not_null()).sort("cost_float", "time_to_best_s", "id")
    runs = least.unique("checksum", keep="first", maintain_order=True).rows_by_key("checksum", named=True, unique=True)
    entries = {entry.id: entry for entry in catalog.entries() if verify.has_parts(entry.track)}
    found: dict[str, Split] = {}
    for row in scored.instances.iter_rows(named=True):
        entry, run = entries.get(row["id"]), runs.get(row["checksum"])
        if run and entry:
            picture = _best(store, run, entry, row["checksum"], json.loads(row["summary"]))
            found |= {row["checksum"]: picture} if picture else {}
    return found


def _best(
    store: Store, run: Mapping[str, Any], entry: Entry, checksum: str, summary: Mapping[str, Any]
) -> Split | None:
    nodes = summary.get("nodes")
    if not isinstance(nodes, int) or nodes > MOST_NODES:
        return None
    with suppress(InputError):  # of a file or a solution that is not what it was
        solution = store.solution(run["id"])
        instance = None if solution is None else _instance(entry, checksum, summary)
        if instance is not None and verify.verify(instance, solution).feasible:
            return drawing(instance, solution, caption=f"Found by {run['solver']}, cost {run['cost_float']:,.6g}.")
    return None


def _instance(entry: Entry, checksum: str, summary: Mapping[str, Any]) -> Any:
    """The instance of this checksum that an entry's file has with its options, or with others that were stored."""
    path = catalog.at_hand(entry)
    if path is None:
        return None
    usual = {name: option.default for name, option in track_module(entry.track).OPTIONS.items()} | {**entry.options}
    stored = {name: summary[name] for name in usual if name in summary and summary[name] != usual[name]}
    problems = [Problem.of(entry, path), replace(Problem.of(entry, path), options={**entry.options, **stored})]
    return next((problem.instance for problem in problems if problem.checksum == checksum), None)
