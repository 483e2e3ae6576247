"""The command about records: best known costs and bounds of the instances of the catalog."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardmark.cli import values
from shardmark.cli.options import Answer, Command, add_json
from shardmark.cli.output import say, tell
from shardmark.cli.terminal import printable, table, without_backticks
from shardmark.cli.values import STDOUT
from shardmark.instances import tracks
from shardmark.instances.files.jsonfile import write_bytes

if TYPE_CHECKING:
    from shardmark.harness.records.best import BestKnown


def records_arguments(sub: argparse.ArgumentParser) -> None:
    """Add what can be done with records, and the options of each."""
    add_filters(sub, "list")
    sub.set_defaults(action=run_list)
    members = sub.add_subparsers(metavar="ACTION")
    for name, run, example in (
        ("verify", run_verify, "--suite quick"),
        ("grades", run_grades, "--track placement"),
        ("export", run_export, "solu --output shardmark.solu"),
        ("update", run_update, "results"),
        ("withdraw", run_withdraw, '--method a-method --reason "Its engine proved a false optimum."'),
    ):
        about = without_backticks(run.__doc__).strip()
        member = members.add_parser(
            name,
            help=about.split("\n\n")[0],
            description=about,
            epilog=f"example: shardmark records {name} {example}",
        )
        add_json(member, default=argparse.SUPPRESS)
        member.set_defaults(action=run)
        if name == "export":
            member.add_argument(
                "format", choices=("csv", "json", "solu"), help="solu: the format of MIPLIB's .solu files"
            )
            words = "file to write (default: -, the standard output)"
            member.add_argument("-o", "--output", type=values.path, default=STDOUT, metavar="FILE", help=words)
        if name == "update":
            member.add_argument("results", type=values.path, metavar="RESULTS", help="a results folder")
            add_author(member, "improvements")
            add_folder(member, default=argparse.SUPPRESS)
        else:
            if name == "withdraw":
                add_what_to_withdraw(member)
            add_filters(member, name, default=argparse.SUPPRESS)


def add_filters(sub: argparse.ArgumentParser, verb: str, default: Any = None) -> None:
    """Add the choice of records; ``default`` keeps the option of the parent parser, if there is one."""
    sub.add_argument("--track", choices=tracks(), default=default, help=f"{verb} only this track")
    sub.add_argument("--suite", default=default, metavar="NAME", help=f"{verb} only the instances of a suite")
    words = f"{verb} only this one; may be repeated"
    sub.add_argument("-i", "--instance", action="append", default=default, metavar="ID", help=words)
    add_folder(sub, default)


def add_author(sub: argparse.ArgumentParser, of: str) -> None:
    """Add the name that new lines carry."""
    words = f"name of the author of the {of} (default: Shardmark)"
    sub.add_argument("--by", type=values.filled, default="Shardmark", metavar="NAME", help=words)


def add_what_to_withdraw(sub: argparse.ArgumentParser) -> None:
    """Add whose bounds are withdrawn, and why."""
    sub.add_argument("--method", required=True, metavar="NAME", help="withdraw the bounds of this method")
    words = "withdraw only bounds of this version of the method; may be repeated"
    sub.add_argument("--version", action="append", default=[], metavar="HASH", help=words)
    sub.add_argument("--reason", required=True, metavar="TEXT", help="reason for the withdrawal, one sentence")
    add_author(sub, "withdrawal")


def add_folder(sub: argparse.ArgumentParser, default: Any = None) -> None:
    """Add the folder of records."""
    sub.add_argument(
        "--records", type=values.path, default=default, metavar="DIR", help="folder of records (default: the project's)"
    )


def run_records(options: argparse.Namespace) -> Answer:
    """List, verify, grade, export, update or withdraw the best known costs and bounds of the catalog's instances.

    Without ACTION, list the records. ``grade`` is "checked" if a certificate proves the bound, "agreed" if methods that
    share no code do, else "claimed". ``gap`` is cost / bound - 1, and 0 if the bound proves the cost optimal;
    ``over_published`` is cost / best published cost - 1.
    """
    answer: Answer = options.action(options)
    return answer


def folder_of(options: argparse.Namespace) -> Path:
    """Return the folder of records that the command line names."""
    from shardmark.harness.records.history import FOLDER

    return options.records or FOLDER


def choose(options: argparse.Namespace, records: Sequence[BestKnown]) -> list[BestKnown]:
    """Return those records that the command line chooses."""
    from shardmark.harness.records.best import chosen

    return chosen(records, options.track, options.suite, options.instance or ())


def chosen_records(options: argparse.Namespace) -> list[BestKnown]:
    """Return the records that the command line chooses."""
    from shardmark.harness.records.best import best_known

    return choose(options, best_known(folder_of(options)))


def run_list(options: argparse.Namespace) -> Answer:
    """List records, one row per instance, and print withdrawn bounds with their reasons on standard error."""
    from shardmark.harness.records.certificates import grade

    chosen = chosen_records(options)
    rows = [
        {
            "track": record.entry.track,
            "instance": record.entry.id,
            "status": record.status,
            "cost": record.cost and record.cost.number,
            "bound": record.bound and record.bound.number,
            "grade": grade(record),
            "gap": record.gap,
            "cost_by": record.cost and record.cost.method,
            "bound_by": record.bound and record.bound.method,
            "date": max((line.date for line in record.history), default=None),
            "over_published": record.over_published,
        }
        for record in chosen
    ]
    lines = (line for record in chosen for line in record.history)
    counts = Counter((line.method, why.date, why.reason) for line in lines if (why := line.withdrawn))
    for (method, date, reason), count in counts.items():
        tell(f"withdrawn on {date}, {count} bound{'s' * (count > 1)} of {method}: {reason}")
    return 0, rows


def run_verify(options: argparse.Namespace) -> Answer:
    """Verify the solutions of records, check their certificates, and that no known cost refutes a bound.

    Records whose instances are not on this machine are skipped. The exit status is 1 if a record is wrong: its
    solution is missing, changed, infeasible or of another cost; its certificate is missing, changed or proves less than
    its bound; its bound is above its cost or a published one; or the file of its instance has changed.
    """
    from shardmark.harness.records.verification import ABSENT, VERIFIED, WRONG, verify_records

    findings = verify_records(folder_of(options), options.track, options.suite, options.instance or ())
    wrong = [finding for finding in findings if finding.result == WRONG]
    if options.json:
        return int(bool(wrong)), [asdict(finding) for finding in findings]
    counts = Counter(finding.result for finding in findings)
    for finding in wrong:
        say(f"{printable(f'{finding.instance}: {finding.reason}')}\n")
    say(", ".join(f"{counts[result]} {result}" for result in (VERIFIED, ABSENT, WRONG)) + "\n")
    return int(bool(wrong)), None


def run_grades(options: argparse.Namespace) -> Answer:
    """Count per track how far the proofs of optimal records were checked.

    ``checked``, ``agreed`` and ``claimed`` are numbers of optimal records, ``kib`` is the size of the certificates
    kept, in KiB. All certificates are checked now, which takes minutes, except those that this machine checked before.
    Those of instances whose files are not on this machine do not count.
    """
    from shardmark.harness.records.certificates import checked, grade, sizes
    from shardmark.harness.results.grades import GRADES

    chosen = chosen_records(options)
    rows: list[dict[str, Any]] = []
    for track in dict.fromkeys(record.entry.track for record in chosen):
        held = [record for record in chosen if record.entry.track == track]
        optimal = [record for record in held if record.status == "optimal"]
        found = Counter(grade(record, checked) for record in optimal)
        kib = round(sum(size for record in held for size in sizes(record)) / 1024, 1)
        rows.append({"track": track, "optimal": len(optimal), **{each: found[each] for each in GRADES}, "kib": kib})
    total = {key: sum(row[key] for row in rows) for key in ("optimal", *GRADES, "kib")}
    return 0, [*rows, {"track": "all", **total}] if len(rows) > 1 else rows


def run_export(options: argparse.Namespace) -> Answer:
    """Export records as CSV, as JSON with their history, or as MIPLIB's lines ``=opt=``, ``=best=``, ``=unkn=``.

    In CSV and JSON, costs and bounds are floats; a column or key that ends in _exact has their exact text.
    """
    from shardmark.harness.records.export import FORMATS

    content = FORMATS[options.format](chosen_records(options))
    if options.output == STDOUT:
        say(content)
        return 0, None
    write_bytes(options.output, content.encode())
    return 0, {"output": str(options.output)}


def run_update(options: argparse.Namespace) -> Answer:
    """Add the better costs and bounds of a results folder to the records, after checking them.

    Solutions are verified and certificates checked again. A bound with a certificate is added also if it is only as
    good as one without. All changes are made in one step. The exit status is 1 if a better cost or bound was
    refused; the reason is printed.
    """
    from shardmark.harness.records.updating import update
    from shardmark.harness.results.database import Store

    with closing(Store.open(options.results)) as store:
        changes = update(store, folder_of(options), options.by)
    refused = [change for change in changes if change.reason]
    rows = [{**asdict(change), "taken": not change.reason} for change in changes]
    if options.json:
        return int(bool(refused)), rows
    counts = Counter(change.kind for change in changes if not change.reason)
    if rows:
        say(f"{table(rows)}\n\n")
    say(f"took {counts['cost']} costs and {counts['bound']} bounds, refused {len(refused)}\n")
    return int(bool(refused)), None


def run_withdraw(options: argparse.Namespace) -> Answer:
    """Withdraw a method's bounds that can no longer be trusted.

    Their lines stay in the history, and a line with the reason is added for each. A bound that is proven again counts
    again.
    """
    from shardmark.harness.records.withdrawing import withdraw

    lines = withdraw(
        folder_of(options), options.method, options.reason, options.by, options.version, partial(choose, options)
    )
    rows = [asdict(line) for line in lines]
    if options.json:
        return 0, rows
    say(f"{table([{key: row[key] for key in ('instance', 'value', 'version')} for row in rows])}\n\n")
    say(f"withdrew {len(rows)} bound{'s' * (len(rows) > 1)} of {printable(options.method)}\n")
    return 0, None


COMMANDS = (Command("records", run_records, records_arguments, "--track intraop"),)
