"""Commands about editions: published campaigns, and the solvers that they recommend."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING

from shardmark.cli import values
from shardmark.cli.options import Answer, Command, add_instance, add_json, add_site, add_timeout, flag, given_options
from shardmark.cli.output import say
from shardmark.cli.terminal import table, without_backticks
from shardmark.instances import InputError

if TYPE_CHECKING:
    from shardmark.harness.editions.folder import Edition

MOST_RECOMMENDED = 5  # solvers that are shown, the best first


def edition_arguments(sub: argparse.ArgumentParser) -> None:
    """Add what can be done with editions, and the options of each."""
    sub.set_defaults(action=run_list)
    members = sub.add_subparsers(metavar="ACTION")
    member = _member(members, "create", run_create, "results/intraop results/hybrid --output editions/2026.12")
    member.add_argument("results", nargs="+", type=values.folder, metavar="RESULTS", help="a results folder, a part")
    words = "folder of the edition, whose name is the edition's; new, or an edition to which the parts are added"
    member.add_argument("-o", "--output", type=values.folder, required=True, metavar="DIR", help=words)
    words = "publish campaigns during which the machine was disturbed; pages show the disturbance and this reason"
    member.add_argument("--accept-disturbance", type=values.filled, metavar="REASON", help=words)

    member = _member(members, "site", run_site, "--output site")
    words = "an edition, a name or a folder (default: the newest)"
    member.add_argument("edition", nargs="?", metavar="EDITION", help=words)
    add_site(member)


def _member(
    members: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    run: Callable[[argparse.Namespace], Answer],
    example: str,
) -> argparse.ArgumentParser:
    """Add an action and return its parser."""
    about = without_backticks(run.__doc__ or "").strip()
    epilog = f"example: shardmark edition {name} {example}"
    member: argparse.ArgumentParser = members.add_parser(
        name, help=about.split("\n\n")[0], description=about, epilog=epilog
    )
    add_json(member, default=argparse.SUPPRESS)
    member.set_defaults(action=run)
    return member


def run_edition(options: argparse.Namespace) -> Answer:
    """List published campaigns, show one as a site, or create one from results.

    Without ACTION, list the editions that come with this version.
    """
    answer: Answer = options.action(options)
    return answer


def run_list(options: argparse.Namespace) -> Answer:
    """List the editions that come with this version, one row per part."""
    from shardmark.harness.editions.folder import find, known

    editions = [find(name) for name in known()]
    return 0, [
        {"edition": edition.name, "part": part.name, "runs": part.runs, "suites": ", ".join(part.suites)}
        for edition in editions
        for part in edition.parts
    ]


def run_create(options: argparse.Namespace) -> Answer:
    """Publish the runs of results folders as an edition, each folder as a part named after it.

    A campaign with missing runs, with a lower bound above a cost, or on a disturbed machine is refused. More parts can
    be added later; the edition and the new results are all that is needed. All runs of a method must be of one version.
    """
    from shardmark.harness.editions.creating import create
    from shardmark.harness.editions.folder import CHECKSUMS, DESCRIPTION, files

    edition = create(options.results, options.output, options.accept_disturbance or "")
    found = files(edition.folder, [part.name for part in edition.parts])
    size = sum(path.stat().st_size for path in found.values())
    answer = {
        "edition": edition.name,
        "folder": str(edition.folder),
        "parts": [{"part": part.name, "runs": part.runs, "suites": list(part.suites)} for part in edition.parts],
        "left_out": list(edition.left_out),
        "mib": round(size / 2**20, 2),
    }
    if options.json:
        return 0, answer
    for part in edition.parts:
        of = f" of {', '.join(part.suites)}" if part.suites else ""
        say(f"{part.name}: {part.runs:,} runs{of}\n")
    for suite in edition.suites:
        names = [row["instance"] for row in edition.left_out if row["suite"] == suite]
        if names:
            say(f"left out of {suite}, as they have no run: {', '.join(names)}\n")
    say(f"{edition.folder}: {answer['mib']} MiB with {DESCRIPTION} and {CHECKSUMS}\n")
    return 0, None


def run_site(options: argparse.Namespace) -> Answer:
    """Build the site of an edition alone; `shardmark leaderboard --against EDITION` adds your own runs."""
    from shardmark.harness.editions.comparing import compared
    from shardmark.harness.results import ranking
    from shardmark.leaderboard.build import build
    from shardmark.leaderboard.drawings import best

    with compared(None, chosen_edition(options.edition), ()) as (store, comparison):
        tables = ranking.tables(store)
        return 0, {"index": str(build(tables, options.output, best.best(store, tables), comparison))}


def recommend_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `recommend`."""
    add_instance(sub)
    add_timeout(sub, "time that you have, in seconds (default: %(default)g)", 20.0)
    words = "an edition, a name or a folder (default: the newest)"
    sub.add_argument("--against", metavar="EDITION", help=words)


def run_recommend(options: argparse.Namespace) -> Answer:
    """Recommend a solver for an instance, by an edition's runs on instances of similar size.

    ``share`` is the least cost that any solver found within the time / the solver's own, the mean over these instances;
    ``within_2_percent`` counts those on which it costs at most 2 % more than the best solver. Ties go to the solver
    that does better on all instances of the track.
    """
    from shardmark.harness.editions.comparing import compared
    from shardmark.harness.results import ranking
    from shardmark.harness.results.ranking.advice import advice, nearest, shares
    from shardmark.instances import track_module
    from shardmark.instances.options import division
    from shardmark.problems import find_problem

    edition = chosen_edition(options.against)
    given = given_options(options)
    instance = find_problem(options.instance, options.track, given).instance
    _, mode = division(track_module(instance.track).OPTIONS, instance.summary())
    with compared(None, edition, ()) as (store, _):
        found = shares(ranking.tables(store), options.timeout).filter(track=instance.track)
    alike = nearest(found.filter(division=mode), instance.nodes)
    rows = [
        {
            "solver": row["solver"],
            "share": round(row["share"], 4),
            "within_2_percent": f"{row['close']} of {row['instances']}",
            "time_s": row["time_s"],
        }
        for row in advice(alike, found)
        if row["share"]
    ]
    if not rows:
        kind = f"{instance.track}{f', {mode}' if mode else ''}"
        raise InputError(edition.name, "", f"expected solutions of {kind} within {options.timeout:g} s, found none")
    names = alike["instance"].unique().sort().to_list()
    options_of_it = "".join(f" {flag(name)} {value}" for name, value in given.items())
    named = f"{quote(options.instance)}{options_of_it} --solver {rows[0]['solver']}"
    command = f"shardmark solve {named} --timeout {options.timeout:g}"
    if options.json:
        about = {"instance": options.instance, "edition": edition.name, "like": names, "timeout_s": options.timeout}
        return 0, {**about, "solvers": rows, "command": command}
    say(f"{table(rows[:MOST_RECOMMENDED])}\n\n")
    say(f"evidence  the edition {edition.name} on {', '.join(names)}, within {options.timeout:g} s\n")
    say(f"try       {command}\n")
    return 0, None


def chosen_edition(name: str | None) -> Edition:
    """Return the edition of a name or folder, or the newest; InputError if none is published."""
    from shardmark.harness.editions.folder import find, known

    names = known()
    if name is None and not names:
        raise InputError("edition", "", "expected the name or folder of an edition, as none is published yet")
    return find(name or names[-1])


COMMANDS = (
    Command("recommend", run_recommend, recommend_arguments, "resnet-50-k4 --timeout 5"),
    Command("edition", run_edition, edition_arguments, "create results --output editions/2026.12"),
)
