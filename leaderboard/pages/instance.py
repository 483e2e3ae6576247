"""The page of an instance: its best solution, convergence, runs and bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction

from leaderboard.drawings import pictures as drawn_as
from leaderboard.pages.convergence import convergence
from leaderboard.pages.site import Page, Site
from leaderboard.pages.tracks import Division, Row, Track, grouped
from leaderboard.text import page_of


def pages(site: Site) -> Iterator[Page]:
    """Yield a page per instance."""
    for track in site.tracks:
        for division in track.divisions:
            yield from _division(site, track, division)


def _division(site: Site, track: Track, division: Division) -> Iterator[Page]:
    parts = (division.runs, track.notes, track.contradictions, division.published)
    runs, notes, wrong, elsewhere = (grouped(x, "instance") for x in parts)
    for instance in division.instances:
        name = instance["instance"]
        content = _instance(site, division, instance, runs[name]) | {"track": track}
        remarks = {"notes": notes[name], "contradictions": wrong[name], "others": elsewhere[name]}
        yield site.page(page_of("instances", track.name, name), "instance.html", **content, **remarks)


def _instance(site: Site, division: Division, instance: Row, runs: Sequence[Row]) -> Row:
    published = json.loads(instance["published"])
    drawn = site.pictures.get(instance["checksum"])
    pictures, undrawn = ((), drawn) if isinstance(drawn, str) else (drawn or (), None)
    return {
        "undrawn": undrawn,
        "division": division,
        "drawings": [(picture, drawn_as.draw(picture), drawn_as.key(picture)) for picture in pictures],
        "instance": instance,
        "summary": {k: v for k, v in json.loads(instance["summary"]).items() if k not in ("track", "name")},
        "published": {k: v for k, v in published.items() if v not in (None, "")},
        "solvers": [run for run in runs if run["kind"] == "solver"],
        "bounds": sorted((run for run in runs if run["lower_bound"] is not None), key=_greatest_bound_first),
        "record": next((r for r in site.records if r.checksum == instance["checksum"]), None),
        "silent": [r for r in runs if r["kind"] == "bound" and r["lower_bound"] is None],
        "chart": convergence(site, division, instance, published, runs),
    }


def _greatest_bound_first(run: Row) -> tuple[bool, Fraction]:
    """Sort key of runs with a bound: by exact value, contradicted ones last."""
    return not run["bound_trusted"], -Fraction(run["lower_bound"])
