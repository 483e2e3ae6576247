"""The command line of the cross-check."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from fnmatch import filter as matching
from itertools import zip_longest
from pathlib import Path

from crosscheck import campaign, drawn, methods, plant
from crosscheck.campaign import Result, Settings, Task
from crosscheck.report import failures, line, report
from crosscheck.tracks import TRACKS
from shardmark.cli import values

#: Folder of results, which git ignores.
RESULTS = Path("crosscheck-results")

#: Results between two lines of progress.
PROGRESS = 10


def main(given: Sequence[str] | None = None) -> int:
    """Run the command line; return 1 if there is a contradiction, else 0."""
    parser = _parser()
    options = parser.parse_args(given)
    folder: Path = options.results
    tracks: list[str] = options.track or list(TRACKS)
    for pattern in options.method or ():
        if not any(matching(methods.chosen(track), pattern) for track in tracks):
            parser.error(f"argument --method: expected the name of a method of {', '.join(tracks)}, found {pattern!r}")
    if not (options.report or options.plant):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            parser.error(f"argument --results: expected a folder to write into, found {folder} ({error.strerror})")
    if options.write is not None:
        for track in tracks:
            print(campaign.write_instance(folder, Task(track, options.write)))
        return 0
    if options.plant:
        print(plant.report(folder, tracks, options.seconds, options.instances))
        return 0
    if not options.report:
        settings = Settings(options.seconds, tuple(options.method or ()))
        seeds = {track: range(options.first, options.first + options.instances) for track in tracks}
        tasks = _missing(folder, drawn.SEEDS if options.drawn else seeds, tracks)
        _run(folder, tasks, settings, options.jobs)
    return _tell(folder, [result for track in tracks for result in campaign.read(folder, track)])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.crosscheck",
        description="Run the methods of each track on generated instances of 8 to 60 nodes and compare their claims.",
        epilog="A rerun skips instances with results. Exit status 1: a claim contradicts another one.",
    )
    add = parser.add_argument
    add("--track", action="append", choices=TRACKS, help="a track; may be repeated (default: all)")
    add("--instances", type=values.positive_int, default=1000, metavar="N", help="instances per track (default: 1000)")
    add("--first", type=values.natural, default=0, metavar="SEED", help="first seed (default: 0)")
    add(
        "--seconds",
        type=values.seconds,
        default=1.0,
        metavar="S",
        help="time limit per method, in seconds (default: 1)",
    )
    add("--drawn", action="store_true", help="the seeds that the test run has, instead of --first and --instances")
    add(
        "--jobs",
        type=values.positive_int,
        default=1,
        metavar="N",
        help="instances at once, on a core each (default: 1)",
    )
    add("--method", action="append", metavar="NAME", help="run only these methods, as in 'exact*'; may be repeated")
    add(
        "--results",
        type=values.folder,
        default=RESULTS,
        metavar="DIR",
        help="folder of results (default: %(default)s)",
    )
    add("--report", action="store_true", help="print the tables of the results, run nothing")
    add(
        "--write", type=values.natural, metavar="SEED", help="write the instance of a seed into the folder, run nothing"
    )
    add("--plant", action="store_true", help="tell which false claims, planted on purpose, the results would reveal")
    return parser


def _missing(folder: Path, seeds: Mapping[str, Sequence[int]], tracks: Sequence[str]) -> list[Task]:
    """Return what has no result yet; tracks take turns, so that an early end leaves something of each."""
    done = {(track, result.seed) for track in tracks for result in campaign.read(folder, track)}
    turns = zip_longest(*([(track, seed) for seed in seeds[track]] for track in tracks))
    return [Task(*one) for turn in turns for one in turn if one and one not in done]


def _run(folder: Path, tasks: Sequence[Task], settings: Settings, jobs: int) -> None:
    with closing(campaign.run(tasks, settings, jobs)) as results:
        for count, result in enumerate(results, 1):
            campaign.append(folder, result)
            for text in (*(line(result, found) for found in result.contradictions()), *failures(result)):
                print(text, flush=True)
            if result.contradictions():
                print(f"  in {campaign.write_instance(folder, Task(result.track, result.seed))}", flush=True)
            if count % PROGRESS == 0 or count == len(tasks):
                print(f"{count} of {len(tasks)} instances", file=sys.stderr, flush=True)


def _tell(folder: Path, results: Sequence[Result]) -> int:
    """Print the tables and every contradiction and failure once more, at the end; return the exit status."""
    found = [line(result, one) for result in results for one in result.contradictions()]
    failed = [text for result in results for text in failures(result)]
    print(report(results) or f"no results in {folder}")
    print()
    for text in [*found, *failed]:
        print(text)
    print(f"{len(found)} contradictions and {len(failed)} failures on {len(results)} instances")
    return 1 if found else 0
