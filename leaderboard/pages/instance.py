"""The page of an instance: its best solution, convergence, runs and bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from shlex import quote

import polars as pl

from harness.records.best import BestKnown
from instances import catalog
from leaderboard.drawings import pictures as drawn_as
from leaderboard.pages.cells import TOLD
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
    parts = (track.notes, track.contradictions, division.published)
    notes, wrong, elsewhere = (grouped(x, "instance") for x in parts)
    runs = division.runs.partition_by("instance", as_dict=True)
    drawn = site.drawn.partition_by("checksum", as_dict=True)
    own = (pl.col("track") == track.name) & (pl.col("division") == division.name)
    cells = site.cells.filter(own).partition_by("instance", as_dict=True)
    for instance in division.instances:
        name = instance["instance"]
        content = _instance(site, division, instance, runs[name,], cells[name,].to_dicts()) | {"track": track}
        lines = drawn[instance["checksum"],]
        content["chart"] = convergence(site, division, instance, content["stated"], lines.to_dicts())
        content["left_out"] = runs[name,].height - lines.height
        remarks = {"notes": notes[name], "contradictions": wrong[name], "others": elsewhere[name]}
        yield site.page(page_of("instances", track.name, name), "instance.html", **content, **remarks)


def _instance(site: Site, division: Division, instance: Row, runs: pl.DataFrame, cells: Sequence[Row]) -> Row:
    published = json.loads(instance["published"])
    named = (division.track, instance["instance"])
    drawn = site.pictures.get(instance["checksum"])
    pictures, undrawn = ((), drawn) if isinstance(drawn, str) else (drawn or (), None)
    return {
        "undrawn": undrawn,
        "division": division,
        "drawings": [(picture, drawn_as.draw(picture), drawn_as.key(picture)) for picture in pictures],
        "instance": instance,
        "summary": {k: v for k, v in json.loads(instance["summary"]).items() if k not in ("track", "name")},
        "stated": published,
        "published": {k: v for k, v in published.items() if v not in (None, "")},
        "solvers": [cell for cell in cells if cell["kind"] == "solver"],
        "bounds": sorted((cell for cell in cells if cell["lower_bound"] is not None), key=_greatest_bound_first),
        "best_solution": site.solutions.get(instance["checksum"]),
        "file": site.instance_files.get(instance["checksum"], (None,))[0],
        "entry": next((e for e in catalog.entries() if (e.track, e.id) == named), None),
        "commands": [_command(instance["instance"], cell) for cell in cells],
        "record": _record(site, instance["checksum"]),
        "unfinished": runs.filter(pl.col("status") != "ok").select(TOLD).to_dicts(),
        "runs": runs.height,
    }


def _greatest_bound_first(run: Row) -> tuple[bool, Fraction]:
    """Sort key of runs with a bound: by exact value, contradicted ones last."""
    return not run["bound_trusted"], -Fraction(run["lower_bound"])


def _record(site: Site, checksum: str) -> BestKnown | None:
    """Return the record of an instance."""
    return next((record for record in site.records if record.checksum == checksum), None)


def _command(instance: str, cell: Row) -> str:
    """The command that repeats the run of a method's first seed on an instance."""
    what = f"solve {quote(instance)} --solver" if cell["kind"] == "solver" else f"bound {quote(instance)} --method"
    limits = f"--timeout {cell['timeout_s']:g} --memory {cell['memory_mib']:g} --cores {cell['cores']}"
    return f"shardmark {what} {quote(cell['solver'])} {limits} --seed {cell['seeds'][0]['seed']}"
