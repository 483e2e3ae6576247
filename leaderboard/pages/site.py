"""The data that all pages of a site share, and the rendering of one page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from shardmark.harness.editions.comparing import Comparison
from shardmark.harness.records.best import best_known
from shardmark.harness.results.ranking import Tables
from shardmark.harness.results.schema import VERSION
from shardmark.leaderboard import text
from shardmark.leaderboard.attachments import instance_files_of, logs_of, origins_of, solutions_of
from shardmark.leaderboard.drawings.pictures import Pictures
from shardmark.leaderboard.edition_facts import edition_of
from shardmark.leaderboard.explore.newest import newest_solver
from shardmark.leaderboard.pages.cells import cells_of, drawn
from shardmark.leaderboard.pages.environment import environment
from shardmark.leaderboard.pages.tracks import tracks_of
from shardmark.leaderboard.text import page_of

Page = tuple[str, str]  # path from the root of the site, and content


class Site:
    """The score tables, the runs with the digests of their logs, their cells, the tracks, and the templates.

    ``reproductions`` has the names and titles of those with pages in the site; ``regressions`` is True if the site has
    a page of them, ``docs`` if it has the documentation; ``pictures`` has drawings of a solution, or the reason why
    there are none, by checksum of the instance. ``comparison`` says what of the runs is of an edition.
    """

    def __init__(
        self,
        tables: Tables,
        reproductions: Mapping[str, str] | None = None,
        pictures: Mapping[str, Pictures | str] | None = None,
        regressions: bool = False,
        docs: bool = False,
        comparison: Comparison | None = None,
    ) -> None:
        self.tables, self.pictures, self.comparison = tables, pictures or {}, comparison
        self.reproductions = reproductions or {}
        self.records = best_known()
        self.logs = logs_of(tables)
        self.best_runs, self.solutions = solutions_of(tables)
        self.origins = origins_of(tables, self.records)
        self.instance_files = instance_files_of(tables, self.origins)
        self.commands = {number: json.loads(words) for number, words in tables.campaigns["id", "command"].iter_rows()}
        self.runs = tables.runs.with_columns(log=pl.col("id").replace_strict(self.logs, default=""))
        self.cells = cells_of(tables, self.runs)
        self.drawn = drawn(self.runs)
        own = pl.col("run").is_in(self.drawn["id"].implode())
        shown = replace(tables, incumbents=tables.incumbents.filter(own), reported=tables.reported.filter(own))
        self.found, self.proved = shown.costs_over_time(), shown.bounds_over_time()
        self.tracks = list(tracks_of(tables, self.runs))
        self.newest = {track.name: newest_solver(tables, track.name) for track in self.tracks}
        self.shown: dict[str, Any] = {
            "tracks": self.tracks,
            "menu": {track.name: page_of("tracks", track.name) for track in self.tracks},
            "newest": self.newest,
            "recorded": {record.checksum: record.entry.id for record in self.records if record.history},
            "regressions": regressions,
            "docs": docs,
            "made_from": _made_from(tables),
            "edition": edition_of(comparison, tables),
            "yours": comparison.own(tables.runs) if comparison else set(),
            "solver_count": sum(len(track.solvers) for track in self.tracks),
        }  # on every page

    def page(self, path: str, template: str, **content: Any) -> Page:
        """Render a template as the page at a path."""
        root = "../" * path.count("/")
        return path, environment().get_template(template).render(self.shown, root=root, path=path, **content)


def _made_from(tables: Tables) -> str:
    """The sentences on the results that a page shows; after a killed build, pages may differ in this."""
    last = max(tables.runs["started"], default="")
    made = f"Made from {text.count(len(tables.runs), 'run')}"
    made += f", the last of {last[:10]} {last[11:16]} UTC" if last else ""
    facts = [json.loads(facts) for facts in tables.hosts.filter(pl.col("runs") > 0)["facts"]]
    machines = list(dict.fromkeys(text.shorten(str(fact.get("cpu", "unknown processor")), 60) for fact in facts))
    versions = tables.campaigns.filter(pl.col("runs") > 0)["version"].unique().sort()
    by = [f"on {', '.join(machines[:3])}{' and others' if len(machines) > 3 else ''}"] if machines else []
    by += [f"by shardmark {', '.join(versions)}"] if len(versions) else []
    return f"{', '.join([made, *by])}; schema {VERSION}."
