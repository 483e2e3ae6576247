"""The page of an instance: its best solution, convergence, runs and bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction

import polars as pl

from shardmark.harness.records import certificates
from shardmark.harness.records.best import RECORDS, BestKnown
from shardmark.harness.results.claims import TOLERANCE
from shardmark.harness.results.ranking.cases import KNOWN
from shardmark.instances.intraop import INFINITE
from shardmark.leaderboard import rerun_commands
from shardmark.leaderboard.attachments import results_file
from shardmark.leaderboard.drawings import pictures as drawn_as
from shardmark.leaderboard.pages.cells import unfinished
from shardmark.leaderboard.pages.convergence import convergence
from shardmark.leaderboard.pages.site import Page, Site
from shardmark.leaderboard.pages.tracks import Division, Row, Track, grouped
from shardmark.leaderboard.text import page_of


def pages(site: Site) -> Iterator[Page]:
    """Yield a page per instance."""
    for track in site.tracks:
        for division in track.divisions:
            yield from _division(site, track, division)


def _division(site: Site, track: Track, division: Division) -> Iterator[Page]:
    methods = track.methods | track.solvers
    parts = (track.notes, track.contradictions, division.published)
    notes, wrong, elsewhere = (grouped(x, "instance") for x in parts)
    told = grouped(unfinished(division.runs).iter_rows(named=True), "instance")
    drawn = site.drawn.partition_by("checksum", as_dict=True)
    own = (pl.col("track") == track.name) & (pl.col("division") == division.name)
    cells = site.cells.filter(own).group_by("instance", maintain_order=True)  # one at a time
    named = {instance["instance"]: instance for instance in division.instances}
    for (name,), own_cells in cells:
        instance, rows = named[name], own_cells.to_dicts()
        content = _instance(site, division, instance, rows) | {"track": track}
        asked = [(methods[cell["solver"]], cell["asked"]) for cell in rows]
        content["commands"] = rerun_commands.commands(instance, content["origin"], asked, site.commands)
        lines = drawn[instance["checksum"],]
        content["chart"] = convergence(site, division, instance, content["stated"], lines.to_dicts())
        content["left_out"] = instance["runs"] - lines.height
        content["unfinished"] = told[name]
        remarks = {"notes": notes[name], "contradictions": wrong[name], "others": elsewhere[name]}
        yield site.page(page_of("instances", track.name, name), "instance.html", **content, **remarks)


def _instance(site: Site, division: Division, instance: Row, cells: Sequence[Row]) -> Row:
    published = json.loads(instance["published"])
    drawn = site.pictures.get(instance["checksum"])
    record = _record(site, instance["checksum"])
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
        "seeded": [cell for cell in cells if cell["kind"] == "solver" and _seeds_differ(cell)],
        "bounds": sorted((cell for cell in cells if cell["lower_bound"] is not None), key=_greatest_bound_first),
        "best_solution": site.solutions.get(instance["checksum"]),
        "file": site.instance_files.get(instance["checksum"], (None,))[0],
        "rows": results_file(division.track, instance["instance"]),
        "origin": site.origins.get(instance["checksum"]),
        "record": record,
        "record_grade": certificates.grade(record) if record else "",
        "ran_best": _from_runs(instance["best_by"]),
        "found": min((cell["cost_exact"] for cell in cells if cell["cost"] is not None), key=Fraction, default=None),
        "ran_bound": _from_runs(instance["bound_by"]),
        "beaten": beaten(instance, record),
        "infinite": infinite(division.track, instance["best_cost_exact"]),
        "some_infinite": any(infinite(division.track, cell["cost_exact"]) for cell in cells),
    }


def _seeds_differ(cell: Row) -> bool:
    """Return True if the runs of a solver with different seeds have different costs."""
    return len({run["cost_exact"] for run in cell["seeds"]}) > 1


def infinite(track: str, cost: str | None) -> bool:
    """Return True for a cost of `intraop` that includes an infinite entry."""
    return track == "intraop" and cost is not None and int(cost) >= INFINITE


def _greatest_bound_first(run: Row) -> tuple[bool, Fraction]:
    """Sort key of runs with a bound: by exact value, contradicted ones last."""
    return not run["bound_trusted"], -Fraction(run["lower_bound_exact"])


def _record(site: Site, checksum: str) -> BestKnown | None:
    """Return the record of an instance."""
    return next((record for record in site.records if record.checksum == checksum), None)


def _from_runs(holders: Sequence[str]) -> bool:
    """Return False if only published values and records are as good."""
    return not holders or any(name not in ("published", KNOWN, RECORDS) for name in holders)


def beaten(instance: Row, record: BestKnown | None) -> list[str]:
    """Name what the runs have better than the record: the cost, the bound, both or nothing."""
    if record is None or record.cost is None:
        return []
    cost, bound = instance["best_cost_exact"], instance["lower_bound_exact"]
    slack = 0 if isinstance(record.cost.number, int) else TOLERANCE  # as for `shardmark records update`
    ran, held = cost is not None and _from_runs(instance["best_by"]), Fraction(record.cost.value)
    less = ran and Fraction(cost) < held - slack * abs(held)
    proved = bound is not None and record.status != "optimal" and _from_runs(instance["bound_by"])
    known = None if record.bound is None else Fraction(record.bound.value)
    greater = proved and (known is None or Fraction(bound) > known + slack * abs(known))
    return [f"the {what} here" for what, better in (("cost", less), ("bound", greater)) if better]
