"""Compare one's own runs with an edition: which of its runs count, under which limits, and on how fast a machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl

from shardmark.harness.campaign.discover import SolverInfo
from shardmark.harness.editions.columns import COLUMNS
from shardmark.harness.editions.folder import Edition
from shardmark.harness.editions.merging import merged, speeds
from shardmark.harness.results.database import FILE_NAME, Store
from shardmark.harness.results.ranking import Tables
from shardmark.harness.results.ranking.frames import frame

#: Machines that differ in speed by no more are taken for equal in comparisons of costs.
SLOW, FAST = 0.8, 1.25

Method = tuple[str, str]  # track and name


@dataclass(frozen=True)
class Comparison:
    """An edition, and how this machine and its methods differ from the edition's.

    ``changed``  methods whose code has changed since the edition, so that its runs of them are not taken
    ``speeds``   how many times as fast this machine is as those of the edition; empty if one was not measured
    """

    edition: Edition
    changed: Sequence[Method]
    speeds: Sequence[float]

    @cached_property
    def machines(self) -> str:
        """A note on the speeds of both machines for those who compare costs and times; empty if they are unknown."""
        if not self.speeds:
            return ""
        low, high = (f"{value:.2f}" for value in (self.speeds[0], self.speeds[-1]))
        times = low if low == high else f"{low} to {high}"
        found = (
            f"This machine is {times} times as fast as the edition's, by its yardstick; times of the edition's runs "
            "are shown as this machine would take."
        )
        if SLOW <= self.speeds[0] <= self.speeds[-1] <= FAST:
            return found
        return f"{found} Costs under a time limit are hardly comparable, as one machine does much more in that time."

    def own(self, runs: pl.DataFrame) -> set[Method]:
        """Return the methods with runs of one's own."""
        return set(runs.filter(pl.col("campaign") > 0).select("track", "solver").iter_rows())

    def noted(self, tables: Tables) -> Tables:
        """Return score tables with notes on each track that has runs of both."""
        with_both = tables.runs.group_by("track").agg(own=pl.col("campaign") > 0)
        notes = [
            (track, None, sentence)
            for track, own in with_both.iter_rows()
            for sentence in (self._changed_in(track), self.machines if any(own) and not all(own) else "")
            if sentence
        ]
        columns = ("track", "instance", "note")
        both = pl.concat([tables.notes, frame(columns, notes)]).sort(*columns, nulls_last=False)
        return Tables(**{**vars(tables), "notes": both})

    def _changed_in(self, track: str) -> str:
        names = sorted(name for of, name in self.changed if of == track)
        words = f"Not taken from the edition {self.edition.name}, as their code has changed since: {', '.join(names)}."
        return words if names else ""


@contextmanager
def compared(results: Path | None, edition: Edition, infos: Sequence[SolverInfo]) -> Iterator[tuple[Store, Comparison]]:
    """Open the database of one's own runs among those of an edition; ``infos`` are the methods at hand."""
    versions = _versions_of_runs(results)
    for info in infos:
        versions.setdefault((info.track, info.name), {info.hash})
    published = published_versions(edition)
    changed = {method for method, code in published.items() if code not in versions.get(method, {code})}
    with merged(results, edition, lambda run: (run["track"], run["solver"]) not in changed) as store:
        yield store, Comparison(edition, sorted(changed), speeds(store))


def _versions_of_runs(results: Path | None) -> dict[Method, set[str]]:
    """Return the hashes of the code of the methods of a results folder, if it is there."""
    found: dict[Method, set[str]] = defaultdict(set)
    if results is not None and (results / FILE_NAME).is_file():
        with closing(Store.open(results)) as store:
            for track, solver, code in store.select("runs", ("track", "solver", "solver_hash")):
                found[track, solver].add(code)
    return found


def published_versions(edition: Edition) -> dict[Method, str]:
    """Return the hash of the code of each method of an edition."""
    track, solver, code = (list(COLUMNS["runs"]).index(name) for name in ("track", "solver", "solver_hash"))
    return {(row[track], row[solver]): row[code] for part in edition.parts for row in edition.rows(part, "runs")}


def published_timeouts(edition: Edition) -> dict[str, float]:
    """Return the greatest time limit of the edition's runs on each instance, by its checksum, in seconds."""
    checksum, timeout = (list(COLUMNS["runs"]).index(name) for name in ("checksum", "timeout_s"))
    found: dict[str, float] = defaultdict(float)
    for part in edition.parts:
        for row in edition.rows(part, "runs"):
            found[row[checksum]] = max(found[row[checksum]], row[timeout])
    return found


def published_runs(edition: Edition) -> set[str]:
    """Return the ids of an edition's runs."""
    return {row[0] for part in edition.parts for row in edition.rows(part, "runs")}
