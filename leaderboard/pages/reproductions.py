"""The list of the reproductions of papers that have a page in the site."""

from __future__ import annotations

from collections.abc import Iterator

from leaderboard.pages.site import Page, Site


def pages(site: Site) -> Iterator[Page]:
    """Yield the page that lists the reproductions."""
    yield site.page("reproduce/index.html", "reproductions.html", titles=site.reproductions, leaderboard=True)
