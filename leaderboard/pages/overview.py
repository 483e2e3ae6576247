"""The overview, with a panel per track and the machines of all runs, and the list of reproductions."""

from __future__ import annotations

from collections.abc import Iterator

from shardmark.leaderboard import charts
from shardmark.leaderboard.pages.front import front
from shardmark.leaderboard.pages.machines import limits, machines
from shardmark.leaderboard.pages.site import Page, Site
from shardmark.leaderboard.reading_aids import aids

FEW_ROWS = 8  # at most, of a ranking chart


def pages(site: Site) -> Iterator[Page]:
    """Yield the first page of the site, and the page that lists the reproductions."""
    panels = [
        (track, [front(d, "", FEW_ROWS, charts.HALF, site.newest[track.name]) for d in track.divisions])
        for track in site.tracks
    ]
    shown = {"machines": machines(site), "limits": limits(site), "runs": len(site.runs)}
    found = aids(site.tables) if site.comparison else None
    yield site.page("index.html", "index.html", panels=panels, aids=found, **shown)
    yield site.page("reproduce/index.html", "reproductions.html", titles=site.reproductions, leaderboard=True)
