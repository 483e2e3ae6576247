"""The page of failed and declined runs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from shardmark.leaderboard.pages.cells import failed
from shardmark.leaderboard.pages.site import Page, Site

MAX_RUNS = 500  # of the failed ones; with the ends of their logs, more would pass 2 MiB


def pages(site: Site) -> Iterator[Page]:
    """Yield the page of all tracks' failed and declined runs."""
    bad = (run for track in site.tracks for run in failed(track.runs).iter_rows(named=True))
    runs = [run | {"file": run["log"], "log": site.tables.store.log(run["id"])} for run in islice(bad, MAX_RUNS)]
    left_out = sum(track.failed for track in site.tracks) - len(runs)
    refusals = [row for track in site.tracks for division in track.divisions for row in division.refusals()]
    yield site.page("failures.html", "failures.html", runs=runs, left_out=left_out, refusals=refusals)
