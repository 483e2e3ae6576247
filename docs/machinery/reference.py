"""Sections of the reference, written from the program itself: its commands, solvers, bounds, suites and statuses."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from html import escape
from inspect import cleandoc

from shardmark.cli.arguments import parser
from shardmark.harness.campaign.discover import discover
from shardmark.harness.editions.columns import COLUMNS, TABLES
from shardmark.harness.results.schema import CERTIFICATES, SCHEMA
from shardmark.instances import tracks
from shardmark.instances.catalog import suite, suites
from shardmark.leaderboard.text import STATUS

_SCHEMA = SCHEMA + CERTIFICATES


def commands() -> str:
    """Return every command with its usage, options and example, as `--help` shows them."""
    return "\n\n".join(_command(name, sub) for name, sub in _subcommands(parser()))


def _subcommands(
    top: argparse.ArgumentParser, before: str = "shardmark"
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield the commands of a parser and theirs in turn, with full names."""
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, sub in action.choices.items():
                yield f"{before} {name}", sub
                yield from _subcommands(sub, f"{before} {name}")


def _command(name: str, sub: argparse.ArgumentParser) -> str:
    usage = sub.format_usage().removeprefix("usage: ").rstrip()
    nested = name.count(" ") > 1  # left out of the search, where families and papers would hide what explains them
    heading = f"### {name} {{ data-search-exclude }}" if nested else f"## {name}"
    parts = [heading, _text(cleandoc(sub.description or "")), f"```text\n{usage}\n```"]
    for group in sub._action_groups:
        rows = [_argument(action) for action in group._group_actions if not _hidden(action)]
        if rows:
            parts.append(_table((str(group.title).capitalize(), "Meaning"), rows))
    if sub.epilog:
        what, _, example = sub.epilog.partition(": ")
        parts.append(f"{what.capitalize()}: `{' '.join(example.split())}`")
    return "\n\n".join(parts)


def _hidden(action: argparse.Action) -> bool:
    return action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction | argparse._HelpAction)


def _argument(action: argparse.Action) -> tuple[str, str]:
    """Return an argument as it is written, and its help."""
    values = "|".join(map(str, action.choices)) if action.choices else action.metavar or action.dest.upper()
    value = values if isinstance(values, str) else " ".join(values)
    takes = "" if action.nargs == 0 else f" {value}"
    written = ", ".join(action.option_strings) + takes if action.option_strings else value
    return f"`{written}`", _text(_filled(action))


def _filled(action: argparse.Action) -> str:
    """Return the help of an argument with its default and the like in place."""
    named = {name: value for name, value in vars(action).items() if value is not argparse.SUPPRESS}
    return (action.help or "") % {**named, "prog": "shardmark"} if "%(" in (action.help or "") else (action.help or "")


def _text(words: str) -> str:
    """Return words that Markdown shows as they are, but for code in backticks."""
    plain = escape(re.sub(r"\s*\n\s*", " ", words.replace("\n\n", "\0")), quote=False).replace("\0", "\n\n")
    return re.sub(r"(?<!`)([*_|])(?![^`]*`(?:[^`]*`[^`]*`)*[^`]*$)", r"\\\1", plain).replace("%%", "%")


def methods(track: str) -> str:
    """Return tables of the solvers and bounds of a track: names, sources, what each does."""
    found = [info for info in discover() if info.track == track]
    tables = []
    for kind, title in (("solver", "Solver"), ("bound", "Bound")):
        alike: dict[tuple[str, str], list[str]] = {}
        for info in found:
            if info.kind == kind:
                alike.setdefault((info.description, info.source), []).append(info.name)
        rows = [
            (" ".join(f"`{name}`" for name in names), _text(about), _text(source))
            for (about, source), names in alike.items()
        ]
        tables.append(_table((title, "What it does", "Source"), rows))
    return "\n\n".join(tables)


def statuses() -> str:
    """Return a table of the statuses of runs."""
    return _table(("Status", "Meaning"), [(f"`{status}`", _text(meaning)) for status, (_, meaning) in STATUS.items()])


def all_suites() -> str:
    """Return a table of the suites: instances, tracks."""
    rows = []
    for name in suites():
        entries = suite(name)
        rows.append((f"`{name}`", str(len(entries)), ", ".join(dict.fromkeys(f"`{entry.track}`" for entry in entries))))
    return _table(("Suite", "Instances", "Tracks"), rows)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def edition_columns() -> str:
    """Return the columns of each table of an edition, from the comments in the schema of the results database."""
    return "\n\n".join(_columns(table) for table in TABLES)


def _columns(table: str) -> str:
    meanings = _meanings(table)
    rows = [f"| `{name}` | {kind.expected} | {_text(meanings[name])} |" for name, kind in COLUMNS[table].items()]
    head = [f"### {table} {{ data-search-exclude }}", "", "| column | value | meaning |", "| --- | --- | --- |"]
    return "\n".join([*head, *rows])


def _meanings(table: str) -> dict[str, str]:
    """Return the comment on each column of a table in the schema."""
    (body,) = re.findall(
        rf"^CREATE TABLE (?:IF NOT EXISTS )?{table} \(.*?\n(.*?)^\)", _SCHEMA, re.DOTALL | re.MULTILINE
    )
    found: dict[str, list[str]] = {}
    for line in body.splitlines():
        if column := re.match(r"  (\w+) [A-Z]", line):
            found[column[1]] = []
        found[next(reversed(found))].append(line.partition("--")[2].strip())
    return {name: " ".join(filter(None, words)) for name, words in found.items()}


#: Writer of each section, by the name with which a page asks for it.
SECTIONS: Mapping[str, Callable[[], str]] = {
    "commands": commands,
    "statuses": statuses,
    "suites": all_suites,
    "edition-columns": edition_columns,
    **{f"methods-{track}": partial(methods, track) for track in tracks()},
}
