"""Commands that download, generate, import and check files."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict
from pathlib import Path
from shlex import quote

from shardmark.cli import options as shared
from shardmark.cli import values
from shardmark.cli.against import add_against, edition_of
from shardmark.cli.options import PLACEHOLDERS, Answer, Command
from shardmark.cli.output import say, tell, write_document
from shardmark.cli.terminal import in_colour, printable, table, without_backticks
from shardmark.instances import InputError, catalog, track_module, tracks
from shardmark.instances.files.jsonfile import write_bytes


def fetch_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `fetch`."""
    sub.add_argument("suite", nargs="*", metavar="SUITE", help="a suite, or the id of an instance (default: contest)")
    sub.add_argument(
        "--mirror",
        type=values.filled,
        metavar="DIR",
        help="local copy with files at OWNER/REPOSITORY/PATH (default: $SHARDMARK_MIRROR)",
    )


def run_fetch(options: argparse.Namespace) -> Answer:
    """Download public instances into the cache, and verify their checksums."""
    from shardmark.instances.fetch import fetch

    suites = catalog.suites()
    entries = [e for name in options.suite or ["contest"] for e in suites.get(name) or [catalog.find(name)]]
    outcomes = fetch(entries, options.mirror, lambda text: print(printable(text), file=sys.stderr))
    failed = sum(outcome.error != "" for outcome in outcomes)
    return int(failed > 0), [{"id": o.id, "path": str(o.path or ""), "error": o.error} for o in outcomes]


def generate_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the families of instances, and the options of each."""
    from shardmark.instances.generate import MEANING, families

    members = sub.add_subparsers(dest="family", metavar="FAMILY", required=True)
    for name, family in families().items():
        member = members.add_parser(
            name,
            help=f"{family.track}: {family.description}",
            description=f"{family.description} Source: {family.source}" if family.source else family.description,
            epilog=f"example: shardmark generate {name} --seed 1 --output {name}.json",
        )
        shared.add_json(member, default=argparse.SUPPRESS)
        shared.add_output(member, "file to write, gzipped if its name ends in .gz", required=True)
        shared.add_seed(member)
        for key, default in family.parameters.items():
            kind = type(default) if default is not None else float
            meaning = MEANING[key].replace("%", "%%") + (f" (default: {default})" if default is not None else "")
            member.add_argument(
                shared.flag(key),
                dest=key,
                type=values.PARSERS_BY_TYPE[kind],
                metavar=PLACEHOLDERS[kind],
                help=meaning,
            )


def run_generate(options: argparse.Namespace) -> Answer:
    """Generate an instance from a seed."""
    from shardmark.instances.generate import families

    shared.require_outputs(options.output)
    family = families()[options.family]
    given = {key: getattr(options, key) for key in family.parameters if getattr(options, key) is not None}
    try:
        instance = family.build(options.seed, **given)
    except InputError as error:
        name = error.place.removeprefix("option ")
        place = shared.flag(name) if name in family.parameters else error.place
        raise InputError(f"generate {options.family}", place, error.expected) from None
    write_document(options.output, track_module(instance.track).to_document(instance))
    return 0, {"output": str(options.output), **instance.summary()}


def import_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the formats of other programs, and the options of each."""
    from shardmark.instances.importers import importers

    members = sub.add_subparsers(dest="importer", metavar="FORMAT", required=True)
    for name, importer in importers().items():
        about = " ".join(without_backticks(importer.__doc__).split("\n\n")[0].split())
        stages = "--stages 8 " if "stages" in importer.OPTIONS else ""
        member = members.add_parser(
            name,
            help=f"{'any track' if 'track' in importer.OPTIONS else importer.TRACK}: {about}",
            description=without_backticks(importer.__doc__),
            epilog=f"example: shardmark import {name} FILE {stages}--output graph.json",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        member.add_argument("file", type=values.path, metavar="FILE", help="plain or gzipped")
        shared.add_json(member, default=argparse.SUPPRESS)
        shared.add_output(member, "file to write, gzipped if its name ends in .gz", required=True)
        for key, option in importer.OPTIONS.items():
            if option.kind is bool:
                member.add_argument(f"--{key}", action="store_true", help=option.meaning)
                continue
            several = {"action": "append", "default": []} if option.kind is dict else {"default": option.default}
            read = values.PARSERS_BY_TYPE[option.kind]
            shared.add_option(member, key, option, option.meaning, type=read, **several)


def run_import(options: argparse.Namespace) -> Answer:
    """Convert a model, or a file of another program, into an instance."""
    from shardmark.instances.importers import importers

    shared.require_outputs(options.output, sources=[options.file, getattr(options, "machine", None)])
    importer = importers()[options.importer]
    given = {name: getattr(options, name) for name in importer.OPTIONS}
    given |= {name: dict(given[name]) for name, option in importer.OPTIONS.items() if option.kind is dict}
    if getattr(importer, "TELLS", False):
        given["tell"] = lambda text: print(printable(f"note: {text}"), file=sys.stderr)
    instance = importer.read(options.file, **given)
    write_document(options.output, track_module(instance.track).to_document(instance))
    return 0, {"output": str(options.output), **instance.summary()}


def new_solver_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `new-solver`."""
    sub.add_argument("name", type=values.solver_name, metavar="NAME")
    sub.add_argument("--track", required=True, choices=tracks())
    sub.add_argument(
        "--directory",
        type=values.folder,
        metavar="DIR",
        help="folder of the new file (default: solvers/TRACK in a clone, else the current folder)",
    )


def run_new_solver(options: argparse.Namespace) -> Answer:
    """Write a template of a solver; create its folder if needed."""
    from shardmark.cli.new_solver import template
    from shardmark.harness.campaign.discover import discover
    from shardmark.solvers import registry

    folder = options.directory or (Path("solvers") / options.track if Path("solvers/registry.py").is_file() else Path())
    path = Path(folder) / f"{options.name.replace('-', '_')}.py"
    if os.path.exists(path):
        raise InputError(path, "", "expected a new file, this one exists: choose another name or delete it")
    other = next((info for info in discover() if (info.track, info.name) == (options.track, options.name)), None)
    if other:
        raise InputError(path, "", f"expected an unused name, found {other.name} in {other.file}")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(folder, "--directory", f"expected a folder that can be written ({error.strerror})") from None
    write_bytes(path, template(options.name, options.track).encode())
    listed = path.resolve().parent == registry.FOLDER / options.track
    where = "" if listed else f" --solver-path {quote(str(path))}"
    return 0, {
        "file": str(path),
        "try": f"shardmark solve INSTANCE --solver {options.name}{where}",
        "check": f"shardmark submit {quote(str(path))}",
    }


def submit_arguments(sub: argparse.ArgumentParser) -> None:
    """Add the options of `submit`."""
    sub.add_argument(
        "file", type=values.path, metavar="FILE", help="a Python file, a TOML file of programs, or a program"
    )
    sub.add_argument(
        "--track", choices=tracks(), help="track of a program; with a solver file, check only its solvers of this track"
    )
    shared.add_results(sub, meaning="results folder with runs of other solvers, to compare with")
    add_against(sub, "none", "compare with the runs of other solvers, and take time limits,")
    sub.add_argument(
        "--branch",
        action="store_true",
        help="commit the file and its results to a new branch solver/NAME of the project",
    )


def run_submit(options: argparse.Namespace) -> Answer:
    """Check a solver before you propose it, show its rank, and prepare a branch."""
    from shardmark.cli.submission.conformance import NO, candidates, submit, verdict
    from shardmark.cli.submission.proposal import propose, require_place
    from shardmark.cli.submission.standing import require_readable, standing

    require_readable(options.results)
    edition = edition_of(options)
    declared = candidates(options.file, options.track)
    if options.branch and not any(info.error for info in declared):  # before the runs, which take minutes
        require_place(options.file, declared)
    findings = submit(options.file, options.track, tell)
    findings.sort(key=lambda finding: finding.passed != NO)  # failures first
    status = int(any(finding.passed == NO for finding in findings))
    infos = [] if status else declared
    stands = [standing(info, options.results, edition) for info in infos]
    branch = propose(options.file, infos, findings, stands) if options.branch and not status else None
    checks = [asdict(finding) for finding in findings]
    if options.json:
        found = [asdict(stand) | {"solver": info.name} for info, stand in zip(infos, stands, strict=True)]
        return status, {"checks": checks, "standing": found, "branch": branch}
    bright = in_colour(sys.stdout)
    parts = [table(rows, bright=bright) for rows in (checks, *(y for x in stands for y in (x.instances, x.ranking)))]
    if any(stand.alone for stand in stands):
        folder = printable(str(options.results))
        alone = f"{folder} has no runs of other solvers on these instances"
        parts.append(f"{alone}; `shardmark run` makes them, --against EDITION takes them.")
    done = f"The branch {branch} is ready: `git push origin {branch}` and open a pull request." if branch else ""
    parts.append(printable(done or verdict(findings, options.file)))
    say("\n\n".join(parts) + "\n")
    return status, None


COMMANDS = (
    Command("fetch", run_fetch, fetch_arguments, "contest --mirror DIR"),
    Command("generate", run_generate, generate_arguments, "watts-strogatz --seed 1 --nodes 150 --output graph.json"),
    Command("import", run_import, import_arguments, "cost-graph graph.pbtxt --stages 8 --output graph.json"),
    Command("new-solver", run_new_solver, new_solver_arguments, "my-idea --track pipeline"),
    Command("submit", run_submit, submit_arguments, "solvers/pipeline/my_idea.py"),
)
