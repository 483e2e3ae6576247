"""The command that reviews a branch with a solver, an instance or a record."""

from __future__ import annotations

import argparse
from pathlib import Path

from shardmark.cli import options as shared
from shardmark.cli import values
from shardmark.cli.options import Answer, Command
from shardmark.cli.output import say, tell
from shardmark.instances.files.jsonfile import write_bytes, write_json


def review_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `review`."""
    sub.add_argument("branch", type=values.filled, metavar="BRANCH", help="a branch or commit of this clone")
    words = "run solvers on the instances of this suite (default: quick)"
    sub.add_argument("--suite", default="quick", metavar="NAME", help=words)
    words = "and on this many of the suite standard per track, drawn with the seed (default: 4)"
    sub.add_argument("--sample", type=values.count, default=4, metavar="N", help=words)
    shared.add_seed(sub)
    shared.add_jobs(sub, "1")
    shared.add_limits_choice(sub)
    words = "write summary.json and summary.md to this folder"
    sub.add_argument("-o", "--output", type=values.folder, metavar="DIR", help=words)


def run_review(options: argparse.Namespace) -> Answer:
    """Review what a branch adds to the commit that is checked out: a solver, an instance or a record.

    New solvers run in isolation, beside the solvers of this checkout. Costs and bounds that the branch claims are
    computed again. All other files of the branch are listed, and neither run nor used. The exit status is 1 if a check
    failed.
    """
    from shardmark.cli.submission.markdown import markdown
    from shardmark.cli.submission.proposal import ROOT
    from shardmark.cli.submission.review import review
    from shardmark.cli.submission.summary import FAILED
    from shardmark.instances import catalog

    catalog.suite(options.suite)
    drawn = options.suite, options.sample, options.seed
    found = review(ROOT, options.branch, *drawn, options.limits, options.jobs or 1, tell)
    for detail in found.details:
        tell(detail)
    text = markdown(found.summary)
    if options.output is not None:
        folder = Path(options.output)
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "summary.json", found.summary)
        write_bytes(folder / "summary.md", text.encode())
    status = int(found.summary["outcome"] == FAILED)
    if options.json:
        return status, {**found.summary, "details": list(found.details)}
    say(text)
    return status, None


COMMANDS = (Command("review", run_review, review_arguments, "solver/my-idea --seed 7"),)
