"""The page of failed and declined runs."""

from __future__ import annotations

from collections.abc import Iterator

from leaderboard.pages.site import Page, Site


def pages(site: Site) -> Iterator[Page]:
    """Yield the page of all tracks' failed and declined runs."""
    failed = [run | {"log": site.tables.store.log(run["id"])} for track in site.tracks for run in track.failed]
    refusals = [row for track in site.tracks for division in track.divisions for row in division.refusals()]
    yield site.page("failures.html", "failures.html", runs=failed, refusals=refusals)
