"""The option --against: one's own runs among those of an edition."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardmark.cli.output import tell

if TYPE_CHECKING:
    from shardmark.harness.campaign.jobs import Job
    from shardmark.harness.editions.comparing import Comparison
    from shardmark.harness.editions.folder import Edition
    from shardmark.harness.results.database import Store

NONE = "none"  # the value that stands for no edition


def add_against(group: argparse._ActionsContainer, usual: str, taken: str) -> None:
    """Add the option; ``usual`` is its default in words, ``taken`` what it takes from the edition."""
    words = f"{taken} from this edition, a name or a folder; none: from no edition (default: {usual})"
    group.add_argument("--against", metavar="EDITION", help=words)


def edition_of(options: argparse.Namespace, suite: str | None = None) -> Edition | None:
    """Return the edition that the command line names, or by default the newest one that has the suite; or None."""
    if options.against == NONE or (options.against is None and suite is None):
        return None
    from shardmark.harness.editions.folder import find, known  # these import Polars, in 0.1 s of CPU time

    if options.against is not None:
        return find(options.against)
    return next((edition for edition in map(find, known()[-1:]) if suite in edition.suites), None)


def timeouts_of(edition: Edition | None) -> dict[str, float]:
    """Return the time limits of an edition by the checksum of an instance; none without an edition."""
    if edition is None:
        return {}
    from shardmark.harness.editions.comparing import published_timeouts

    return published_timeouts(edition)


def without_published(edition: Edition | None, jobs: Sequence[Job]) -> tuple[list[Job], int]:
    """Return the jobs that an edition has no runs of, and the number of the others, which standard error tells.

    A run that was asked for certificates stands for one that was not.
    """
    if edition is None:
        return list(jobs), 0
    from shardmark.harness.editions.comparing import published_runs

    published = published_runs(edition)
    left = [job for job in jobs if published.isdisjoint((job.id, replace(job, certify=True).id))]
    taken = len(jobs) - len(left)
    if taken:
        of = f"{taken:,} of {len(jobs):,} runs are those of the edition {edition.name}"
        tell(f"{of}; --against none repeats them here")
    return left, taken


def standing(results: Path, edition: Edition, instances: Collection[str]) -> list[dict[str, Any]]:
    """Return where the solvers with runs of one's own stand among those of an edition, on these instances."""
    from shardmark.harness.results import ranking

    with opened(results, edition) as (store, comparison):
        scored = ranking.tables(store, instances)
    own = comparison.own(scored.runs) if comparison else set()
    columns = ("track", "division", "rank", "solver", "score_sum", "instances", "solved", "expected")
    places = scored.solvers.select(columns)
    sizes = Counter(places.select("track", "division").iter_rows())
    return [
        {**row, "rank": f"{row['rank']} of {sizes[row['track'], row['division']]}"}
        for row in places.iter_rows(named=True)
        if (row["track"], row["solver"]) in own
    ]


@contextmanager
def opened(results: Path, edition: Edition | None) -> Iterator[tuple[Store, Comparison | None]]:
    """Open the database of a results folder, which must be there, among the runs of an edition if there is one."""
    from shardmark.harness.campaign.discover import discover
    from shardmark.harness.editions.comparing import compared
    from shardmark.harness.results.database import Store

    with closing(Store.open(results)) as store:
        if edition is None:
            yield store, None
            return
    with compared(results, edition, discover()) as found:
        yield found
