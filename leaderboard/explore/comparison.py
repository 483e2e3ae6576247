"""The page of comparisons: the leaders of each ranking pair by pair, and the place of the script's part."""

from __future__ import annotations

from collections.abc import Iterator

from shardmark.leaderboard.explore.data_files import INDEX
from shardmark.leaderboard.explore.pairs import pairs
from shardmark.leaderboard.pages.site import Page, Site
from shardmark.leaderboard.text import printable


def pages(site: Site) -> Iterator[Page]:
    """Yield the page."""
    divisions = [division for track in site.tracks for division in track.divisions]
    compared = [(division, rows) for division in divisions if (rows := pairs(site.tables, division))]
    leaders = {
        track.name: [printable(row["solver"]) for row in max(track.divisions, key=lambda d: len(d.ranking)).ranking[:2]]
        for track in site.tracks
    }
    yield site.page("compare.html", "compare.html", parts_of_site=compared, leaders=leaders, index=INDEX)
