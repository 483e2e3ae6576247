"""Commands that report on runs: tables, the site, and reproductions of papers."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from shardmark.cli import options as shared
from shardmark.cli import values
from shardmark.cli.against import add_against, edition_of, opened
from shardmark.cli.options import FAULTY, Answer, Command
from shardmark.cli.output import say, write_content
from shardmark.cli.terminal import report, without_backticks
from shardmark.cli.values import STDOUT
from shardmark.instances import InputError, catalog, tracks

if TYPE_CHECKING:
    import polars as pl


def results_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `results`."""
    shared.add_results(sub)
    add_against(sub, "none", "add the runs that you do not have")
    rows = sub.add_argument_group("filters; each may be repeated")
    rows.add_argument("--track", action="append", choices=tracks(), help="only this track")
    rows.add_argument("-s", "--solver", action="append", metavar="NAME", help="only this solver or bound method")
    rows.add_argument("-i", "--instance", action="append", metavar="INSTANCE", help="only this instance")
    files = sub.add_argument_group("files, written instead of a table on the terminal; - for standard output")
    files.add_argument("--parquet", type=values.path, metavar="FILE")
    files.add_argument("--csv", type=values.path, metavar="FILE")
    tables = ("runs", "solvers", "incumbents", "bounds", "published", "campaigns", "hosts")
    sub.add_argument(
        "--table",
        choices=tables,
        default="runs",
        help="table to show (default: runs, with scores); solvers has the rankings",
    )


def run_results(options: argparse.Namespace) -> Answer:
    """Show runs with their scores, or another table, or write it as Parquet or CSV.

    In JSON, costs and bounds are numbers: exact integers of any length for `intraop`, floats for other tracks. In
    files, the column cost is a float and cost_exact is its exact decimal text; bounds have two columns as well.
    """
    from shardmark.harness.results import export, ranking

    if options.csv is not None and options.csv == options.parquet:
        raise InputError(
            "results", "--csv and --parquet", f"expected two different files, found {options.csv} for both"
        )
    files = {options.parquet: export.parquet, options.csv: export.csv}
    shared.require_outputs(*files)
    with opened(options.results, edition_of(options)) as (store, comparison):
        scored = ranking.tables(store)
    scored = comparison.noted(scored) if comparison else scored
    frame = chosen(export.export_table(scored, options.table), options)
    for path, encode in files.items():
        if path is not None:
            write_content(path, encode(frame), f"{frame.height:,} row{'s' * (frame.height != 1)}")
    if STDOUT in files or (not options.json and any(files)):
        return 0, None
    return 0, export.as_values(frame if options.json else export.shown_table(frame, options.table))


def chosen(frame: pl.DataFrame, options: argparse.Namespace) -> pl.DataFrame:
    """Return the rows that the command line names; InputError for a name that the table does not have."""
    for key in ("track", "solver", "instance"):
        names = getattr(options, key)
        if names is None:
            continue
        if key not in frame.columns:
            raise InputError(
                "results", f"--{key}", f"expected no filter, as the table {options.table} has no such column"
            )
        known = frame[key].drop_nulls().unique()
        for name in names:
            if name not in known:
                near = catalog.near_miss(name, known)
                raise InputError(
                    "results",
                    f"--{key} {name!r}",
                    f"expected the name of a run's {key}{near}",
                )
        frame = frame.filter(frame[key].is_in(names))
    return frame


def leaderboard_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `leaderboard`."""
    shared.add_results(sub)
    shared.add_site(sub)
    sub.add_argument("--suite", metavar="NAME", help="only the instances of a suite (default: all that were run)")
    add_against(sub, "the newest that has the suite, if one is named", "add the runs that you do not have")


def run_leaderboard(options: argparse.Namespace) -> Answer:
    """Build the leaderboard, a static site."""
    from shardmark.harness.results import ranking
    from shardmark.leaderboard.build import build
    from shardmark.leaderboard.drawings import best

    only = None if options.suite is None else {entry.id for entry in catalog.suite(options.suite)}
    with opened(options.results, edition_of(options, options.suite)) as (store, comparison):
        tables = ranking.tables(store, only)
        pictures = best.best(store, tables)
        return 0, {"index": str(build(tables, options.output, pictures, comparison))}


def reproduce_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the reproductions, and the options of each."""
    from shardmark.leaderboard.reproductions import options, reproductions

    members = sub.add_subparsers(dest="name", metavar="NAME", required=True)
    for name, module in reproductions().items():
        about = " ".join(without_backticks(module.__doc__).split("\n\n")[0].split())
        example = f"example: shardmark reproduce {name}"
        member = members.add_parser(name, help=about, description=about, epilog=example)
        for key, option in options(module.DEFAULTS).items():
            read, placeholder = values.PARSERS_BY_KIND[option.kind]
            shown = ",".join(map(str, option.default)) if isinstance(option.default, tuple) else str(option.default)
            member.add_argument(
                f"--{key.replace('_', '-')}",
                type=read,
                default=option.default,
                choices=option.choices or None,
                metavar=None if option.choices else placeholder,
                help=f"{option.meaning} (default: {shown})",
            )
        shared.add_json(member, default=argparse.SUPPRESS)
        shared.add_quiet(member)
        runs = member.add_argument_group("runs")
        shared.add_cores(runs)
        shared.add_memory(runs, "MiB per run", "--memory")
        shared.add_jobs(runs, "as many as fit")
        shared.add_backend(runs)
        shared.add_retry(runs)
        member.set_defaults(executor="local")
        files = member.add_argument_group("files")
        shared.add_results(files, "results/reproduce", "folder for the runs; generated graphs go to DIR-graphs")
        shared.add_site(files)


def run_reproduce(options: argparse.Namespace) -> Answer:
    """Reproduce a paper's tables or figures, and print ours next to the published ones."""
    from shardmark.cli.matrix import run_cells
    from shardmark.harness.campaign import host
    from shardmark.harness.campaign.cpus import usable_cpus
    from shardmark.harness.results.judgement import FAULTS
    from shardmark.leaderboard import reproductions
    from shardmark.leaderboard.build import require_writable
    from shardmark.leaderboard.reproduction_page import write

    require_writable(options.output)
    chosen = reproductions.reproductions()[options.name]
    settings = replace(
        chosen.DEFAULTS, **{key: getattr(options, key) for key in reproductions.options(chosen.DEFAULTS)}
    )
    options.jobs = options.jobs or max(1, len(usable_cpus()) // options.cores)
    graphs = Path(f"{options.results.resolve()}-graphs")  # runs do not see the folder of results
    status, answer = run_cells(options, chosen.plan(settings, graphs))
    if status:
        return status, answer
    found = chosen.report(settings, answer)
    held = f"{host.facts()['cpu']}; {options.cores} of its cores and {options.memory_limit:g} MiB per run"
    made = {"Machine": f"{held}, {options.jobs} at once", "Made with": f"shardmark {host.version()}"}
    found = replace(found, facts={**found.facts, **made})
    page = write(found, options.output)
    faults = sum(run.status in FAULTS for run in answer)
    if faults:
        words = f"{faults} of {len(answer)} runs failed; --retry-failed repeats them"
        print(f"warning: {words}", file=sys.stderr)
    if options.json:
        return FAULTY if faults else 0, {**asdict(found), "page": str(page)}
    say(f"{report(found)}\n\npage: {page}\n")
    return FAULTY if faults else 0, None


COMMANDS = (
    Command("results", run_results, results_arguments, "--csv runs.csv"),
    Command("leaderboard", run_leaderboard, leaderboard_arguments, "--output site"),
    Command(
        "reproduce", run_reproduce, reproduce_arguments, "pipeline-bounds --graphs 8 --timeout 10 --bound-timeout 60"
    ),
)
