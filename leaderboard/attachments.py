"""Files that belong to runs and instances: logs, best solutions, instance files, and where the site keeps them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from shardmark.harness.campaign.problems import Problem
from shardmark.harness.records.best import BestKnown
from shardmark.harness.results.ranking import Tables
from shardmark.instances import InputError, catalog, track_module
from shardmark.instances.catalog import Entry
from shardmark.leaderboard.text import slug

FOLDER = "data"  # of the site


def logs_of(tables: Tables) -> dict[str, str]:
    """Return the digest of the log of each current run that has one."""
    logs = tables.store.logs()
    digests = {run: hashlib.sha256(log.encode()).hexdigest()[:16] for run, log in logs if log.strip()}
    current = tables.runs.filter(pl.col("id").is_in(list(digests)))["id"]
    return {run: digests[run] for run in current}


def solutions_of(tables: Tables) -> tuple[dict[str, str], dict[str, str]]:
    """Return the best run of each instance, by checksum, and the path of its solution if one is stored."""
    costs = tables.runs.select("checksum", "id", "cost", "time_to_best_s").filter(pl.col("cost").is_not_null())
    least = costs.sort("cost", "time_to_best_s", "id")
    best = dict(least.unique("checksum", keep="first", maintain_order=True).select("checksum", "id").iter_rows())
    kept = set(filter(tables.store.has_solution, best.values()))
    rows = tables.instances.select("checksum", "track", "instance").iter_rows()
    paths = {c: f"{FOLDER}/solutions/{slug(track)}/{slug(name)}.json" for c, track, name in rows if best.get(c) in kept}
    return best, paths


@dataclass(frozen=True)
class Origin:
    """The catalog's entry that an instance is of, and the options that it was given beyond the entry's."""

    entry: Entry
    options: Mapping[str, Any]


def origins_of(tables: Tables, records: Iterable[BestKnown]) -> dict[str, Origin]:
    """Return the origin of each instance of the catalog, by checksum.

    Track, id and content must be those of the entry: the checksum is that of its record, or of its file at hand.
    """
    entries = {(entry.track, entry.id): entry for entry in catalog.entries()}
    recorded = {(record.entry.track, record.entry.id): record.checksum for record in records}
    found = {}
    for checksum, track, name, summary in tables.instances.select("checksum", "track", "id", "summary").iter_rows():
        entry = entries.get((track, name))
        if entry is not None:
            same = recorded.get((track, name)) == checksum
            options = {} if same else _options(entry, checksum, json.loads(summary))
            if options is not None:
                found[checksum] = Origin(entry, options)
    return found


def _options(entry: Entry, checksum: str, summary: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the options beyond the entry's that give its file this checksum; None if none do."""
    usual = {name: option.default for name, option in track_module(entry.track).OPTIONS.items()} | {**entry.options}
    stored = {name: summary[name] for name in usual if name in summary and summary[name] != usual[name]}
    with suppress(InputError):  # the file has changed
        source = catalog.at_hand(entry)
        if source is None:
            return None
        problem = Problem.of(entry, source)
        for given in ({}, stored):
            if replace(problem, options={**entry.options, **given}).checksum == checksum:
                return given
    return None


def instance_files_of(tables: Tables, origins: Mapping[str, Origin]) -> dict[str, tuple[str, Path]]:
    """Return path in the site and source of the file of each instance that comes with the project, by checksum."""
    found = {}
    for checksum, track, name in tables.instances.select("checksum", "track", "id").iter_rows():
        origin = origins.get(checksum)
        if origin and origin.entry.embedded and (source := catalog.at_hand(origin.entry)):
            ending = source.name[source.name.index(".") :]
            found[checksum] = (f"{FOLDER}/instances/{slug(track)}/{slug(name)}{ending}", source)
    return found


def results_file(track: str, instance: str) -> str:
    """Return the path in the site of the results on an instance."""
    return f"{FOLDER}/results/{slug(track)}/{slug(instance)}.csv"
