"""The machines, limits and backends behind the runs of a site."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime

import polars as pl

from shardmark.leaderboard.pages.site import Site
from shardmark.leaderboard.pages.tracks import Row
from shardmark.leaderboard.text import held


def machines(site: Site) -> list[Row]:
    """A row per campaign and machine that runs of these tables come from; those that differ in times only are one."""
    hosts = site.tables.hosts.filter(pl.col("runs") > 0)
    campaigns = site.tables.campaigns.rename({"id": "campaign"}).drop("runs")
    runs = site.runs.select("campaign", "host", "backend", "enforced").partition_by("campaign", "host", as_dict=True)
    joined = hosts.join(campaigns, on="campaign", maintain_order="left").sort("started", maintain_order=True)
    rows: dict[str, Row] = {}
    for row in joined.iter_rows(named=True):
        row |= {"took_s": _seconds_between(row["started"], row["ended"]), "times": 1}
        row["ways"] = ways(runs[row["campaign"], row["name"]])
        first = rows.setdefault(_alike(row), row)
        if first is not row:
            first["runs"] += row["runs"]
            first["times"] += 1
            first["took_s"] = first["took_s"] + row["took_s"] if None not in (first["took_s"], row["took_s"]) else None
    return list(rows.values())


def _alike(row: Row) -> str:
    """Return what campaigns must share to be shown as one row."""
    facts = json.loads(row["facts"])
    facts.pop("yardstick", None)
    backends = sorted({way["backend"] for way in row["ways"]})
    names = ("name", "executor", "jobs", "version", "disturbances")
    return json.dumps([row["campaign"] > 0, facts, backends, *(row[name] for name in names)], sort_keys=True)


def limits(site: Site) -> dict[str, Row]:
    """Limits of the runs, by track."""
    of_track = site.tables.runs.group_by("track", maintain_order=True).agg(
        shortest=pl.col("timeout_s").min(),
        longest=pl.col("timeout_s").max(),
        cores=pl.col("cores").unique().sort(),
        memory_mib=pl.col("memory_mib").unique().sort(),
        seeds=pl.col("seed").n_unique(),
    )
    return {row["track"]: row for row in of_track.iter_rows(named=True)}


def ways(runs: pl.DataFrame) -> list[Row]:
    """A row per backend and enforcement of limits, with its number of runs; most runs first."""
    counts: Counter[tuple[str, str]] = Counter()
    for backend, enforced, number in runs.group_by("backend", "enforced").len().iter_rows():
        if backend:
            counts[backend, held(json.loads(enforced or "{}"))] += number
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [{"backend": backend, "words": words, "runs": number} for (backend, words), number in ordered]


def _seconds_between(started: str, ended: str | None) -> float | None:
    """Duration of a campaign; None if it was killed or is still running."""
    if ended is None:
        return None
    return (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds()
