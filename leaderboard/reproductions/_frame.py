"""Common parts of all reproductions: generated files, facts and notes of reports, quotients."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from shardmark.harness.results.claims import Number, gap, quotient
from shardmark.harness.results.database import make_folder
from shardmark.instances import InputError, track_module
from shardmark.instances.files.jsonfile import encode, read_bytes, sha256, write_bytes
from shardmark.leaderboard.report import Report, Section
from shardmark.leaderboard.reproductions import Run, Settings, failures


def written(graph: Any, folder: Path) -> Path:
    """Write a generated graph to a file named by its digest, unless it exists; return the path.

    Raises InputError if the file exists with other content.
    """
    content = encode(track_module(graph.track).to_document(graph))
    path = folder / f"{graph.name}-{sha256(content)[:12]}.json"
    if not path.is_file():
        make_folder(folder)
        write_bytes(path, content)
    elif read_bytes(path) != content:
        raise InputError(path, "", "expected the graph that was written to it, found other content: delete the file")
    return path


def grouped(runs: Iterable[tuple[Any, Any, Run]]) -> dict[Any, dict[Any, Run]]:
    """Group runs by two keys."""
    found: dict[Any, dict[Any, Run]] = {}
    for first, second, run in runs:
        found.setdefault(first, {})[second] = run
    return found


def report(
    settings: Settings,
    sections: Sequence[Section],
    *,
    sample: str,
    limits: str,
    made: str,
    seeds: int | None = None,
    **others: Any,
) -> Report:
    """A report whose facts are sample, seeds, limits and, unless ``made`` is empty, the setup of the published figures.

    ``seeds`` counts the runs that differ in their seeds only; None if there are no such runs.
    """
    last = settings.seed + (seeds or 1) - 1
    facts = {
        "Sample": sample,
        "Seed" if seeds is None else "Seeds": str(last) if last == settings.seed else f"{settings.seed} to {last}",
        "Time limit": limits,
        **({"Published with": made} if made else {}),
    }
    return Report(facts=facts, sections=sections, **others)


def limits(settings: Settings, solvers: str, bounds: str = "for each bound") -> str:
    """Describe the time limits of solvers, and of bounds if they have one."""
    return solvers if settings.bound_timeout is None else f"{solvers}, {settings.bound_timeout:g} s {bounds}"


def sample(here: Sequence[str], every: Sequence[Any]) -> str:
    """Describe which instances ran."""
    return f"{len(here)} of {len(every)} instances run here{': ' if here else ''}{', '.join(here)}"


def notes(missing: Sequence[str], every: Sequence[Any], published: str, runs: Iterable[Run], suites: str) -> list[str]:
    """List reasons why figures are not comparable: other machines, faults, missing files of some suites."""
    words = [f"Published figures were not run here: {published}"]
    words += failures(run for run in runs if not run.contradicted)
    if len(missing) == len(every):
        words.insert(0, "Nothing was run here: all figures are published ones.")
    if missing:
        absent = f"Files missing, so published figures only: {', '.join(missing)}."
        words.append(f"{absent} `shardmark fetch {suites}` downloads them.")
    return words


def ratio(part: Number | None, whole: Number | None) -> float | None:
    """A quotient; None if it has no value."""
    return quotient(part, whole) if part is not None and whole else None


def percent_above(cost: Number | None, bound: Number | None) -> float | None:
    """Gap between a cost and a bound in percent, see `claims.gap`; None if it has no value."""
    above = gap(cost, bound)
    return None if above is None else 100 * above
