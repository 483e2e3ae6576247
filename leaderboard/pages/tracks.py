"""The tracks and divisions of a site, with the rows of the score tables that belong to each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import polars as pl

from shardmark.harness.results.grades import CHECKED
from shardmark.harness.results.ranking import Tables
from shardmark.leaderboard import charts

DECLINED = "declined"  # status of a run whose method does not take the instance

#: The run was stopped at its limit of time with an answer, as methods that search until then are.
AT_LIMIT = pl.col("status").is_in(["timeout", "cpu"]) & (
    pl.col("cost").is_not_null() | pl.col("bound_trusted").fill_null(False)
)
#: The run failed.
FAILED = ~pl.col("status").is_in(["ok", DECLINED]) & ~AT_LIMIT

Row = dict[str, Any]


def grouped(rows: Iterable[Row], *keys: str) -> dict[Any, list[Row]]:
    """Group rows by the value of one column, or of several, in their order; unknown keys have no rows."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[itemgetter(*keys)(row)].append(row)
    return groups


@dataclass(frozen=True)
class Division:
    """A division of a track, ranked together; the lists hold rows of the tables of the same names.

    ``name`` is empty in a track without modes. ``ranking`` has the solvers; ``methods`` has the bound methods and the
    solvers that report bounds.
    """

    track: str
    name: str
    ranking: Sequence[Row]
    methods: Sequence[Row]
    declined: Sequence[Row]
    instances: Sequence[Row]
    runs: pl.DataFrame
    published: Sequence[Row]
    colours: Mapping[str, str]

    @property
    def anchor(self) -> str:
        """The anchor of the division on the track's page."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower())

    @property
    def end(self) -> str:
        """The suffix of anchors in the division's part of the page."""
        return f"-{self.anchor}" if self.name else ""

    @property
    def size(self) -> int:
        """The number of instances."""
        return len(self.instances)

    @property
    def proven(self) -> int:
        """The number of instances whose best known cost is proven optimal."""
        return sum(row["proven"] for row in self.instances)

    @property
    def checked(self) -> int:
        """The number of instances whose best known cost is proven optimal by a certificate that was checked."""
        return sum(row["proven"] and row["grade"] == CHECKED for row in self.instances)

    def refusals(self) -> list[Row]:
        """One row per method and reason for declining, with the numbers of instances and runs."""
        declined = self.runs.filter(pl.col("status") == DECLINED).group_by("solver", "reason")
        counted = declined.agg(instances=pl.col("checksum").n_unique(), runs=pl.len()).sort("solver", "reason")
        return [row | {"track": self.track, "division": self} for row in counted.iter_rows(named=True)]

    def places(self, method: str) -> list[Row]:
        """The row of a solver or bound method if it is ranked here; for a solver, not the row of its bounds."""
        return [self._places[method]] if method in self._places else []

    @cached_property
    def _places(self) -> dict[str, Row]:
        return {row["solver"]: row for row in (*self.methods, *self.ranking)}


@dataclass(frozen=True)
class Track:
    """Data that the pages of one track share: its divisions, and rows of the tables of the same names."""

    name: str
    about: str
    divisions: Sequence[Division]
    instances: Sequence[Row]
    runs: pl.DataFrame
    notes: Sequence[Row]
    contradictions: Sequence[Row]

    @property
    def named(self) -> bool:
        """True if the track has modes."""
        return any(division.name for division in self.divisions)

    @property
    def solvers(self) -> dict[str, Row]:
        """Facts about each solver, by its name."""
        return self._methods("solver")

    @property
    def methods(self) -> dict[str, Row]:
        """Facts about each bound method, by its name."""
        return self._methods("bound")

    def _methods(self, kind: str) -> dict[str, Row]:
        rows = (row for d in self.divisions for row in (*d.methods, *d.ranking, *d.declined) if row["kind"] == kind)
        return {row["solver"]: row for row in rows}

    @property
    def failed(self) -> int:
        """The number of runs that failed; a run that declined, or reached its limit with an answer, did not."""
        return self.runs.filter(FAILED).height

    @property
    def limited(self) -> int:
        """The number of runs that reached their limit of time with an answer."""
        return self.runs.filter(AT_LIMIT).height

    @property
    def refused(self) -> int:
        """The number of declined runs."""
        return self.runs.filter(pl.col("status") == DECLINED).height

    @property
    def size(self) -> int:
        """The number of instances."""
        return len(self.instances)

    @property
    def proven(self) -> int:
        """The number of instances whose best known cost is proven optimal."""
        return sum(division.proven for division in self.divisions)


def tracks_of(tables: Tables, runs: pl.DataFrame) -> Iterator[Track]:
    """Yield the tracks of score tables; ``runs`` has the runs in the order of the pages."""
    names = ("solvers", "bounds", "declined", "instances", "published", "notes", "contradictions")
    parts = {name: grouped(getattr(tables, name).iter_rows(named=True), "track") for name in names}
    for name, about in tables.tracks.items():
        own = {part: rows[name] for part, rows in parts.items()}
        instances, notes, contradictions = (own[part] for part in ("instances", "notes", "contradictions"))
        own_runs = runs.filter(pl.col("track") == name) if len(tables.tracks) > 1 else runs
        divisions = _divisions(name, tables.divisions[name], own, own_runs)
        yield Track(name, about, divisions, instances, own_runs, notes, contradictions)


def _divisions(
    track: str, names: Sequence[str], rows: Mapping[str, Sequence[Row]], runs: pl.DataFrame
) -> list[Division]:
    same = ("declined", "instances", "published")
    parts = {"ranking": "solvers", "methods": "bounds", **{part: part for part in same}}
    lists = {field: grouped(rows[part], "division") for field, part in parts.items()}
    return [
        Division(
            track,
            name,
            colours=colours,
            runs=runs.filter(pl.col("division") == name) if len(names) > 1 else runs,
            **{field: of[name] for field, of in lists.items()},
        )
        for name, colours in zip(names, colours_of([lists["ranking"][name] for name in names]), strict=True)
    ]


def colours_of(rankings: Iterable[Sequence[Row]]) -> list[dict[str, str]]:
    """Colour classes of the first solvers of each ranking; a solver keeps its earlier colour if possible."""
    known: dict[str, int] = {}
    colours = []
    for ranking in rankings:
        first = [row["solver"] for row in ranking[: charts.COLOURS]]
        own: dict[str, int] = {}
        for name in first:
            if name in known and known[name] not in own.values():
                own[name] = known[name]
        free = iter([colour for colour in range(1, charts.COLOURS + 1) if colour not in own.values()])
        own |= {name: next(free) for name in first if name not in own}
        known = own | known
        colours.append({row["solver"]: f"s{own.get(row['solver'], 0)}" for row in ranking})
    return colours
