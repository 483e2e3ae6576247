"""Notes for readers who compare runs: unequal limits, machines, disturbances, missing and dropped runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from shardmark.harness.results.ranking.frames import DIVISION, frame
from shardmark.harness.sandbox.contract import KILLED

_Note = tuple[str, str | None, str]


def notes_on(
    dropped: pl.DataFrame, runs: pl.DataFrame, instances: pl.DataFrame, hosts: pl.DataFrame, expected: pl.DataFrame
) -> pl.DataFrame:
    notes = [
        *_limit_notes(runs),
        *_backend_notes(runs),
        *_host_notes(runs, hosts),
        *_disturbance_notes(runs, hosts),
        *_missing_notes(expected),
        *_dropped_notes(dropped),
        *_killed_notes(runs),
        *_name_notes(instances),
    ]
    return frame(("track", "instance", "note"), notes).sort("track", "instance", "note", nulls_last=False)


def _limit_notes(runs: pl.DataFrame) -> list[_Note]:
    """Note runs of one kind on one instance under unequal limits, once per instance and once per track."""
    most = pl.col("cores") * pl.col("timeout_s") + 1  # CPU time that a run without a limit on it can use
    cpu = pl.min_horizontal("cpu_limit_s", most).fill_null(most)
    limits = pl.struct("timeout_s", "cores", "memory_mib", cpu_s=cpu).unique().sort().alias("limits")
    mixed = runs.group_by("track", "instance", "kind").agg(limits).filter(pl.col("limits").list.len() > 1)
    notes: list[_Note] = []
    for track, instance, kind, unequal in mixed.iter_rows():
        words = [_limits(**limit) for limit in unequal]
        notes.append((track, instance, f"Its {kind} runs had different limits: {'; '.join(words)}."))
    counts = mixed.group_by("track").agg(pl.col("instance").n_unique())
    sentence = "Runs under different time, core or memory limits are compared on {} of its instances."
    return notes + [(track, None, sentence.format(count)) for track, count in counts.iter_rows()]


def _limits(timeout_s: float, cores: int, memory_mib: float, cpu_s: float) -> str:
    cpu = f", {cpu_s:g} s of CPU time" if cpu_s < cores * timeout_s else ""
    return f"{timeout_s:g} s, {cores} core{'s' if cores > 1 else ''}, {memory_mib:g} MiB{cpu}"


def _backend_notes(runs: pl.DataFrame) -> list[_Note]:
    """Note runs whose limits were enforced in different ways."""
    backends = runs.filter(pl.col("backend") != "").group_by("track").agg(pl.col("backend").unique().sort())
    return [
        (track, None, f"The limits of its runs were enforced in different ways: {', '.join(names)}.")
        for track, names in backends.iter_rows()
        if len(names) > 1
    ]


def _with_hosts(runs: pl.DataFrame, hosts: pl.DataFrame) -> pl.DataFrame:
    """Return a row per track and machine with runs: ``facts``, ``disturbances`` and the number of runs, ``count``."""
    key = ["campaign", "host"]
    counted = runs.group_by("track", *key, maintain_order=True).agg(count=pl.len())
    return counted.join(hosts.rename({"name": "host"}), on=key, maintain_order="left")


def _host_notes(runs: pl.DataFrame, hosts: pl.DataFrame) -> list[_Note]:
    """Note runs from machines that differ in processor, cores or memory."""
    machine = pl.col("facts").map_elements(lambda facts: _machine(json.loads(facts)), pl.String)
    used = _with_hosts(runs, hosts).group_by("track").agg(machine.unique().sort())
    return [
        (track, None, f"Runs from {len(names)} machines are compared: {'; '.join(names)}.")
        for track, names in used.iter_rows()
        if len(names) > 1
    ]


def _disturbance_notes(runs: pl.DataFrame, hosts: pl.DataFrame) -> list[_Note]:
    """Note runs from machines that were disturbed during their campaign."""
    found = _with_hosts(runs, hosts).filter(pl.col("disturbances") != "[]")
    return [
        (
            track,
            None,
            f"The machine was disturbed in a campaign with {count} of its runs. {' '.join(json.loads(words))}",
        )
        for track, words, count in found.group_by("track", "disturbances").agg(pl.col("count").sum()).iter_rows()
    ]


def _machine(host: Mapping[str, Any]) -> str:
    return f"{host.get('cpu', 'unknown processor')}, {host.get('cores', '?')} cores, {host.get('memory_mib', '?')} MiB"


def _missing_notes(expected: pl.DataFrame) -> list[_Note]:
    missing = expected.filter(pl.col("missing") > 0).sort("solver").group_by(DIVISION, maintain_order=True)
    return [
        (track, None, f"Not run on every instance{of}, scored 0 on the others: {', '.join(names)}.")
        for track, division, names in missing.agg("solver").iter_rows()
        for of in [f" of {division}" if division else ""]
    ]


def _dropped_notes(dropped: pl.DataFrame) -> list[_Note]:
    left_out = dropped.group_by("track").len()
    return [
        (track, None, f"{count} runs of older solver versions, or repeated since, are not counted.")
        for track, count in left_out.iter_rows()
    ]


def _killed_notes(runs: pl.DataFrame) -> list[_Note]:
    killed = runs.filter(pl.col("status") == KILLED).group_by("track").len()
    return [
        (track, None, f"Runs that were killed from outside and are not scored: {count}. `shardmark run` repeats them.")
        for track, count in killed.iter_rows()
    ]


def _name_notes(instances: pl.DataFrame) -> list[_Note]:
    shared = instances.filter(pl.col("instance") != pl.col("id"))
    return [
        (track, None, f"{count} different contents or options share the id {name}; checksums tell them apart.")
        for track, name, count in shared.group_by("track", "id").len().iter_rows()
    ]
