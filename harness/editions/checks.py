"""Refuses to publish campaigns that have holes, contradictions, a disturbed machine or mixed versions."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from itertools import product
from pathlib import Path

import polars as pl

from shardmark.harness.results.ranking import Tables
from shardmark.harness.sandbox.contract import KILLED
from shardmark.instances import InputError

FEW = 3  # cases that a sentence names
Versions = Mapping[tuple[str, str], str]  # hash of the code of each method, by track and name


def require_publishable(results: Path, scored: Tables, finished: Mapping[str, str], accepted: str) -> None:
    """Raise InputError for the first fault of the campaigns of a results folder.

    ``finished`` has the status of every recorded run; ``accepted`` says why their machine may be a disturbed one.
    """
    if scored.runs.is_empty():
        raise InputError(results, "", "expected runs, found none")
    _require_complete(results, scored, {run for run, status in finished.items() if status != KILLED})
    refuted = scored.contradictions.filter(pl.col("solver") != "published")
    for row in refuted.iter_rows(named=True):
        found = f"found {row['bound_exact']} of {row['solver']} above the cost {row['cost_exact']} of {row['against']}"
        raise InputError(results, row["instance"], f"expected no lower bound above a cost, {found}")
    if not accepted:
        _require_undisturbed(results, scored)


def _require_complete(results: Path, scored: Tables, done: Collection[str]) -> None:
    """Raise InputError if a run that a campaign asked for is missing, or was killed from outside.

    Of campaigns with the same command, which resume each other, the last one counts.
    """
    last = scored.campaigns.sort("id").unique("command", keep="last", maintain_order=True)
    for campaign in last["id"]:
        asked = scored.history.asked.filter(pl.col("campaign") == campaign)
        missing = len(set(asked["run"]).difference(done))
        if missing:
            there = scored.runs.filter(pl.col("status") != KILLED)
            names = list(_holes(there.join(asked, left_on="id", right_on="run", how="semi")))
            few = f": {'; '.join(names[:FEW])}{'; ...' if missing > FEW else ''}" if names else ""
            found = f"found {missing} missing{few}; the same command runs them"
            raise InputError(results, f"campaign {campaign}", f"expected all of its {asked.height} runs, {found}")


def _holes(found: pl.DataFrame) -> Iterator[str]:
    """Yield in words the combinations of method, instance and seed that are missing among the runs of a campaign."""
    for _, runs in found.group_by("track", maintain_order=True):
        there = set(runs.select("solver", "instance", "seed").iter_rows())
        instances = runs["instance"].unique().sort()
        for (solver, seed), instance in product(sorted({(row[0], row[2]) for row in there}), instances):
            if (solver, instance, seed) not in there:
                yield f"{solver} on {instance}, seed {seed}"


def _require_undisturbed(results: Path, scored: Tables) -> None:
    for row in scored.hosts.filter(pl.col("runs") > 0).iter_rows(named=True):
        place = f"campaign {row['campaign']}"
        accept = "--accept-disturbance REASON publishes it nevertheless"
        if row["disturbances"] is None:
            raise InputError(results, place, f"expected a campaign that ended by itself; {accept}")
        if found := json.loads(row["disturbances"]):
            words = " ".join(found).rstrip(".")
            raise InputError(results, place, f"expected an undisturbed machine, found: {words}; {accept}")


def require_one_version(results: Path, runs: pl.DataFrame, others: Versions, part: str) -> None:
    """Raise InputError for a method that another part of the edition has in another version."""
    methods = runs.select("track", "solver", "solver_hash").unique().iter_rows()
    mixed = sorted((track, name) for track, name, code in methods if others.get((track, name), code) != code)
    if mixed:
        named = ", ".join(f"{solver} of {track}" for track, solver in mixed[:FEW])
        found = f"found another version of {named}{', ...' if len(mixed) > FEW else ''}"
        raise InputError(results, "", f"expected every method in the version that the part {part} has, {found}")
