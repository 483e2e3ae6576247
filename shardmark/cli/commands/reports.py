"""Commands that report on runs: tables, the site, and published figures beside ours."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path

from instances import catalog
from shardmark import api
from shardmark.cli import options as shared
from shardmark.cli import values
from shardmark.cli.options import Answer, Command
from shardmark.cli.output import say
from shardmark.cli.terminal import report, unmarked


def results_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `results`."""
    shared.add_results(sub)
    sub.add_argument("--parquet", type=Path, metavar="FILE")
    sub.add_argument("--csv", type=Path, metavar="FILE")
    tables = ("runs", "solvers", "incumbents", "bounds", "published", "campaigns", "hosts")
    sub.add_argument(
        "--table", choices=tables, default="runs", help="default: runs, with scores; solvers: the rankings"
    )


def run_results(options: argparse.Namespace) -> Answer:
    """Show the runs with their scores, or another table; also write it as Parquet or CSV."""
    from harness.results import export

    shared.require_outputs(options.parquet, options.csv)
    frame = export.export_table(api.results(options.results), options.table)
    if options.parquet:
        export.write_parquet(frame, options.parquet)
    if options.csv:
        export.write_csv(frame, options.csv)
    shown = frame if options.json else export.shown_table(frame, options.table)
    return 0, shown.to_dicts()


def leaderboard_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `leaderboard`."""
    shared.add_results(sub)
    sub.add_argument("--output", type=Path, default=Path("site"), metavar="DIR", help="default: site")
    sub.add_argument("--suite", metavar="NAME", help="only the instances of a suite (default: all that were run)")


def run_leaderboard(options: argparse.Namespace) -> Answer:
    """Build the static site."""
    from harness.results import ranking
    from harness.results.database import Store
    from leaderboard.build import build
    from leaderboard.drawings import best

    only = None if options.suite is None else {entry.id for entry in catalog.suite(options.suite)}
    with closing(Store.open(options.results)) as store:
        tables = ranking.tables(store, only)
        pictures = best.best(store, tables)
    return 0, {"index": str(build(tables, options.output, pictures))}


def reproduce_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the reproductions, and the options of each."""
    from leaderboard.reproductions import options, reproductions

    members = sub.add_subparsers(dest="name", metavar="NAME", required=True)
    for name, module in reproductions().items():
        about = " ".join(unmarked(module.__doc__).split("\n\n")[0].split())
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
        member.add_argument(
            "--cores", type=values.positive_int, default=1, metavar="N", help="CPUs per run (default: 1)"
        )
        member.add_argument(
            "--jobs", type=values.positive_int, metavar="N", help="runs at once (default: as many as fit)"
        )
        shared.add_memory(member, "MiB per run")
        member.add_argument(
            "--results",
            type=values.path,
            default=Path("results/reproduce"),
            metavar="DIR",
            help="folder for its runs; graphs go to DIR-graphs",
        )
        member.add_argument(
            "--output", type=values.path, default=Path("site"), metavar="DIR", help="folder of the site (default: site)"
        )
        member.add_argument("--quiet", action="store_true", help="print no progress")
        member.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for machines")
        member.add_argument("--retry-failed", action="store_true", help="repeat runs whose status is not ok")
        member.set_defaults(executor="local")
        shared.add_backend(member)


def run_reproduce(options: argparse.Namespace) -> Answer:
    """Reproduce a paper's tables or figures, ours beside the published ones."""
    from harness.campaign import host
    from harness.campaign.cpus import usable_cpus
    from harness.results.judgement import FAULTS
    from leaderboard import reproductions
    from leaderboard.build import require_writable
    from leaderboard.reproduction_page import write
    from shardmark.cli.matrix import run_cells

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
    held = f"{host.facts()['cpu']}; {options.cores} of its cores and {options.memory:g} MiB per run"
    made = {"Machine": f"{held}, {options.jobs} at once", "Made with": f"shardmark {host.version()}"}
    found = replace(found, facts={**found.facts, **made})
    page = write(found, options.output)
    faults = sum(run.status in FAULTS for run in answer)
    if faults:
        words = f"{faults} of {len(answer)} runs ended by a fault; --retry-failed repeats them"
        print(f"warning: {words}", file=sys.stderr)
    if options.json:
        return int(faults > 0), {**asdict(found), "page": str(page)}
    say(f"{report(found)}\n\npage: {page}\n")
    return int(faults > 0), None


COMMANDS = (
    Command("results", run_results, results_arguments, "--csv runs.csv"),
    Command("leaderboard", run_leaderboard, leaderboard_arguments, "--output site"),
    Command(
        "reproduce", run_reproduce, reproduce_arguments, "pipeline-bounds --graphs 8 --timeout 10 --bound-timeout 60"
    ),
)
