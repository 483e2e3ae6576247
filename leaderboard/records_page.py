"""The page of records: best known costs and bounds of the catalog's instances, and files to take them away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from shardmark.harness.records import certificates, export, solutions
from shardmark.harness.records.best import BestKnown
from shardmark.harness.records.history import FOLDER, Improvement, Withdrawal
from shardmark.harness.results.grades import CHECKED, GRADES
from shardmark.instances import tracks
from shardmark.leaderboard.pages.site import Page, Site
from shardmark.leaderboard.pages.tracks import Row
from shardmark.leaderboard.text import page_of, percent

PAGE = "records.html"
DATA = "records"  # folder of the exports in the site


def pages(site: Site) -> Iterator[Page]:
    """Yield the page of records and its exports."""
    held = [record for record in site.records if record.history]
    withdrawn, graded = _withdrawn(held), {record.entry.id: certificates.grade(record) for record in held}
    shown = {row["checksum"] for track in site.tracks for row in track.instances}
    yield site.page(
        PAGE,
        "records.html",
        rows=[_row(r, shown, graded[r.entry.id]) for track in tracks() for r in held if r.entry.track == track],
        totals=[_total(track, [r for r in site.records if r.entry.track == track], graded) for track in tracks()],
        missing=[record.entry for record in site.records if not record.history],
        later=_later(held),
        withdrawn=withdrawn,
        reasons=list({(why.date, why.method, why.reason, why.by): why for _, _, why in withdrawn}.values()),
        exports={ending: f"{DATA}/records.{ending}" for ending in export.FORMATS},
    )
    for ending, write in export.FORMATS.items():
        yield f"{DATA}/records.{ending}", write(site.records)


def solution_files(site: Site) -> Iterator[tuple[str, bytes]]:
    """Yield the solutions of the records, and the certificates of their bounds, as files of the site."""
    for record in site.records:
        names = [solutions.name_of(record.cost)] if record.cost else []
        names += [certificates.name_of(record.bound)] if record.bound and record.bound.certificate else []
        for name in names:
            yield f"{DATA}/{name}", (FOLDER / name).read_bytes()


def _row(record: BestKnown, shown: set[str], grade: str) -> Row:
    proof = record.bound and record.bound.certificate and certificates.name_of(record.bound)
    published = record.entry.published
    return {
        "record": record,
        "page": page_of("instances", record.entry.track, record.entry.id) if record.checksum in shown else None,
        "solution": f"{DATA}/{solutions.name_of(record.cost)}" if record.cost else None,
        "grade": grade,
        "certificate": f"{DATA}/{proof}" if proof and grade == CHECKED else None,
        "published": published.get("best_cost"),
        "published_source": published.get("best_cost_source"),
        "difference": difference(record.over_published),
    }


def difference(over: float | None) -> str:
    """Return in words how far a cost lies above the best published one."""
    if over is None:
        return "–"
    if over == 0:
        return "the same"
    return f"{percent(abs(over))} {'more' if over > 0 else 'less'}"


def _total(track: str, records: Sequence[BestKnown], graded: Mapping[str, str]) -> Row:
    """Count the records of a track, by status and grade, and by comparison with the published costs."""
    optimal = Counter(graded[record.entry.id] for record in records if record.status == "optimal")
    over = [record.over_published for record in records if record.over_published is not None]
    return {
        "track": track,
        "instances": len(records),
        "held": sum(record.cost is not None for record in records),
        "optimal": optimal.total(),
        **{grade: optimal[grade] for grade in GRADES},
        "less": sum(value < 0 for value in over),
        "same": sum(value == 0 for value in over),
        "more": sum(value > 0 for value in over),
    }


def _later(records: Sequence[BestKnown]) -> list[tuple[BestKnown, Improvement, Improvement]]:
    """Return the improvements of earlier values: the record, the line, and the best line before it; latest first."""
    found = []
    for record in records:
        best: dict[str, Improvement] = {}
        for line in record.history:
            if line.withdrawn:
                continue
            if line.kind in best:
                found.append((record, line, best[line.kind]))
            best[line.kind] = max(best.get(line.kind, line), line, key=_worth)
    return sorted(found, key=lambda change: change[1].date, reverse=True)


def _withdrawn(records: Sequence[BestKnown]) -> list[tuple[BestKnown, Improvement, Withdrawal]]:
    """Return the bounds that were withdrawn: the record, the line, and the withdrawal; latest first."""
    found = [(record, line, line.withdrawn) for record in records for line in record.history if line.withdrawn]
    return sorted(found, key=lambda withdrawn: withdrawn[2].date, reverse=True)


def _worth(line: Improvement) -> Fraction:
    """Sort key of lines of one kind: the better, the greater."""
    return Fraction(line.value) * (-1 if line.kind == "cost" else 1)
