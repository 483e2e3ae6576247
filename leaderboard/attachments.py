"""Files that belong to runs and instances: logs, best solutions, instance files, and where the site keeps them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl

from harness.campaign.problems import Problem
from harness.results.ranking import Tables
from instances import InputError, catalog
from leaderboard.text import slug

FOLDER = "data"  # of the site


def logs_of(tables: Tables) -> dict[str, str]:
    """Return the digest of the log of each current run that has one."""
    current = set(tables.runs["id"])
    return {
        run: hashlib.sha256(log.encode()).hexdigest()[:16]
        for run, log in tables.store.logs()
        if run in current and log.strip()
    }


def solutions_of(tables: Tables) -> tuple[dict[str, str], dict[str, str]]:
    """Return the best run of each instance, by checksum, and the path of its solution if one is stored."""
    least = tables.runs.filter(pl.col("cost").is_not_null()).sort("cost_float", "time_to_best_s", "id")
    best = dict(least.unique("checksum", keep="first", maintain_order=True).select("checksum", "id").iter_rows())
    stored = tables.store.connection.execute("SELECT id FROM runs WHERE solution IS NOT NULL")
    kept = {run for (run,) in stored}.intersection(best.values())
    rows = tables.instances.select("checksum", "track", "instance").iter_rows()
    paths = {c: f"{FOLDER}/solutions/{slug(track)}/{slug(name)}.json" for c, track, name in rows if best.get(c) in kept}
    return best, paths


def instance_files_of(tables: Tables) -> dict[str, tuple[str, Path]]:
    """Return path in the site and source of each embedded instance's file, by checksum."""
    entries = {(entry.track, entry.id): entry for entry in catalog.entries() if entry.embedded}
    found = {}
    for checksum, track, name in tables.instances.select("checksum", "track", "id").iter_rows():
        entry = entries.get((track, name))
        if entry and (source := catalog.at_hand(entry)) and _same(Problem.of(entry, source), checksum):
            ending = source.name[source.name.index(".") :]
            found[checksum] = (f"{FOLDER}/instances/{slug(track)}/{slug(name)}{ending}", source)
    return found


def _same(problem: Problem, checksum: str) -> bool:
    try:
        return problem.checksum == checksum
    except InputError:
        return False
