"""The page that defines scores, statuses and rules."""

from __future__ import annotations

from collections.abc import Iterator

from shardmark.harness.results.claims import PROVEN, TOLERANCE
from shardmark.harness.results.ranking.methods import FEWEST_RESAMPLED, RESAMPLES
from shardmark.leaderboard import text
from shardmark.leaderboard.pages.site import Page, Site


def pages(site: Site) -> Iterator[Page]:
    """Yield the page of definitions."""
    yield site.page(
        "scores.html",
        "scores.html",
        resamples=RESAMPLES,
        fewest=FEWEST_RESAMPLED,
        proven=PROVEN,
        tolerance=TOLERANCE,
        meanings=text.STATUS,
    )
