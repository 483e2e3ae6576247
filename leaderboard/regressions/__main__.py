"""Draw what asv measured as a page of a site: ``python -m shardmark.leaderboard.regressions .asv/results site``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from shardmark.instances.errors import InputError
from shardmark.leaderboard.regressions.history import commits, series
from shardmark.leaderboard.regressions.page import sentence, write
from shardmark.leaderboard.regressions.steps import regression


def main() -> int:
    """Write the page, and print the regressions; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m shardmark.leaderboard.regressions", description=__doc__.split(":")[0]
    )
    parser.add_argument("results", type=Path, help="asv's folder of results")
    parser.add_argument("site", type=Path, help="the folder of the site")
    options = parser.parse_args()
    try:
        history = series(options.results, commits(Path()))
        page = write(history, options.site)
    except InputError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    for step in filter(None, map(regression, history)):
        print(f"{step.series.name} ({step.series.case or step.series.group}): {sentence(step)}")
    print(f"open {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
