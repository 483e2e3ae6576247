"""The command line: ``shardmark COMMAND``, also ``python -m harness``.

Exit status 0 for success, 1 for "no" (infeasible, nothing found), 2 for bad input or usage; 128 and the number of the
signal that ended it: 130 for Ctrl-C, 143 for SIGTERM.
"""

from __future__ import annotations

import argparse
import errno
import keyword
import os
import re
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from harness.campaign import host
from harness.results.database import FILE_NAME
from harness.sandbox.backends.choice import ISOLATION, LIMITS
from harness.sandbox.contract import Limits
from instances import InputError, track_module, tracks
from shardmark.cli import commands
from shardmark.cli.commands import Answer
from shardmark.cli.output import drop_output, emit, open_streams, say
from shardmark.cli.terminal import printable, unmarked

DEFAULT_MEMORY_MIB = 4096.0

#: What stands for the value of an option in help, by its kind.
PLACEHOLDERS: Mapping[type, str] = {int: "N", float: "X", str: "NAME", Path: "FILE"}

#: Greatest count, seed, number of seeds, and number of a CPU.
MOST, MOST_SEED, MOST_SEEDS, MOST_CPU = 2**31 - 1, 2**63 - 1, 10**6, 2**16

Add = Callable[[str, Callable[[argparse.Namespace], Answer], str], argparse.ArgumentParser]


class Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong with a value; shows usage if something is missing or not known.

    Options must be written out: argparse would take ``--output`` for ``--output-limit`` where a command has no other.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """End with the message; `argparse` calls this while it handles what the value of an argument raised."""
        message = told(message)
        if isinstance(sys.exc_info()[1], argparse.ArgumentError):
            self.exit(2, f"{self.prog}: {message}\n")
        super().error(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    database = "results"
    try:
        open_streams()
        with _clean_end():
            try:
                options = parser().parse_args(arguments)
            finally:
                say("")  # help waits to be written
            database = str(getattr(options, "results", Path()) / FILE_NAME)
            status, answer = options.command(options)
            emit(answer, options.json)
    except InputError as error:
        print(f"shardmark: {told(str(error))}", file=sys.stderr)
        return 2
    except sqlite3.Error as error:
        expected = f"expected a database that can be read and written ({error})"
        print(printable(f"shardmark: {database}: {expected}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        print("shardmark: interrupted", file=sys.stderr)
        return commands.ended_by(*error.args or (signal.SIGINT,))
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        drop_output()
        return 141
    return int(status)


def told(sentence: str) -> str:
    """A sentence as it is printed: characters that can be, and of a long word its beginning and its end."""
    return re.sub(r"\S{300,}", lambda word: f"{word[0][:100]}...{word[0][-100:]}", printable(sentence))


@contextmanager
def _clean_end() -> Iterator[None]:
    """End on SIGTERM and SIGHUP as on Ctrl-C: runs are killed, what is done is kept."""

    def interrupt(number: int, _: object) -> NoReturn:
        raise KeyboardInterrupt(number)

    heeded = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN]  # as under nohup
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


# ---------------------------------------------------------------- arguments


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = Parser(prog="shardmark", description="Split deep-learning graphs over devices, and know how well.")
    top.add_argument("--version", action="version", version=f"shardmark {host.version()}")
    members = top.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, command: Callable[[argparse.Namespace], Answer], example: str) -> argparse.ArgumentParser:
        about = unmarked(command.__doc__).strip()
        sub = members.add_parser(
            name,
            help=about.split("\n\n")[0],
            description=about,
            epilog=f"example: shardmark {name} {example}",
        )
        sub.add_argument("--json", action="store_true", help="print JSON for machines")
        sub.set_defaults(command=command)
        return sub

    _of_one_instance(add)
    _of_campaigns(add)
    _of_files(add)
    return top


def _of_one_instance(add: Add) -> None:
    """Commands about one instance, and what there is to choose from."""
    sub = add("list", commands.run_list, "solvers")
    sub.add_argument("what", choices=("instances", "solvers", "bounds", "suites"))
    sub.add_argument("--track", choices=tracks(), help="only what is of this track")
    _solver_path(sub)

    sub = add("solve", commands.run_solve, "watts-strogatz-150 --solver brkga-100 --timeout 5")
    _instance(sub)
    who = sub.add_mutually_exclusive_group(required=True)
    who.add_argument("--solver", metavar="NAME")
    who.add_argument("--command", dest="command_line", metavar="CMD", help="a program, started as `CMD FILE SECONDS`")
    _settings(sub)
    sub.add_argument("--output", type=Path, metavar="FILE", help="write the best solution there")
    _limits(sub)
    _solver_path(sub)

    sub = add("check", commands.run_check, "watts-strogatz-150 solution.json")
    _instance(sub)
    sub.add_argument("solution", metavar="SOLUTION", help="a JSON file")
    sub.add_argument("--method", metavar="NAME", help="a bound, or a solver that proves bounds, run for the gap")
    _limits(sub)
    _solver_path(sub)

    sub = add("bound", commands.run_bound, "erdos-renyi-60 --method exact --timeout 10")
    _instance(sub)
    sub.add_argument("--method", required=True, metavar="NAME")
    _limits(sub)
    _solver_path(sub)

    sub = add("info", commands.run_info, "transformer-12")
    _instance(sub)


def _of_campaigns(add: Add) -> None:
    """Commands about many runs, and what becomes of them."""
    sub = add("run", commands.run_run, "--suite quick --jobs 2")
    which = sub.add_mutually_exclusive_group()
    which.add_argument("--suite", default="quick", metavar="NAME", help="instances of a suite (default: quick)")
    which.add_argument("--instance", action="append", metavar="INSTANCE", help="a file or an id; may be repeated")
    _track_options(sub)
    sub.add_argument("--solver", action="append", metavar="NAME", help="only these; may be repeated")
    _settings(sub)
    sub.add_argument(
        "--command",
        action="append",
        default=[],
        dest="command_line",
        metavar="CMD",
        help="a program, started as `CMD FILE SECONDS`, and of the others only those of --solver; may be repeated",
    )
    sub.add_argument("--seeds", type=_seeds, default=1, metavar="N", help="seeds 0 to N-1 (default: 1)")
    sub.add_argument("--jobs", type=_positive_int, metavar="N", help="runs at once (default: 1; dask: one a worker)")
    sub.add_argument("--executor", choices=("local", "dask"), default="local", help="this machine, or workers of Dask")
    sub.add_argument("--scheduler", metavar="ADDRESS", help="of Dask, as tcp://HOST:8786")
    sub.add_argument("--retry-failed", action="store_true", help="do again what did not end well")
    sub.add_argument("--quiet", action="store_true", help="no progress")
    _results(sub)
    _limits(sub, seed=False)
    _solver_path(sub)

    sub = add("results", commands.run_results, "--csv runs.csv")
    _results(sub)
    sub.add_argument("--parquet", type=Path, metavar="FILE")
    sub.add_argument("--csv", type=Path, metavar="FILE")
    tables = ("runs", "solvers", "incumbents", "bounds", "published", "campaigns", "hosts")
    sub.add_argument("--table", choices=tables, default="runs", help="solvers: the rankings; default: runs, and scores")

    sub = add("leaderboard", commands.run_leaderboard, "--output site")
    _results(sub)
    sub.add_argument("--output", type=Path, default=Path("site"), metavar="DIR", help="default: site")
    sub.add_argument("--suite", metavar="NAME", help="only the instances of a suite (default: all that were run)")

    _reproduce(add("reproduce", commands.run_reproduce, "pipeline-bounds --graphs 8 --timeout 10 --bound-timeout 60"))

    sub = add("worker", commands.run_worker, "--scheduler tcp://HOST:8786 --cores 4")
    sub.add_argument("--scheduler", required=True, metavar="ADDRESS", help="of Dask; start one with `dask scheduler`")
    which = sub.add_mutually_exclusive_group()
    which.add_argument("--cores", type=_positive_int, default=1, metavar="N", help="CPUs of a run (default: 1)")
    which.add_argument("--cpus", type=_numbers, metavar="LIST", help="which they are, as 0,2,4-7 (default: the first)")
    sub.add_argument("--name", metavar="NAME", help="of this machine in results (default: its host name)")
    _backend(sub)


def _of_files(add: Add) -> None:
    """Commands that bring or make files, and check them."""
    sub = add("fetch", commands.run_fetch, "contest --mirror DIR")
    sub.add_argument("suite", nargs="*", metavar="SUITE", help="a suite or an id (default: contest)")
    sub.add_argument("--mirror", metavar="DIR", help="a local copy, OWNER/REPOSITORY/PATH (or SHARDMARK_MIRROR)")

    _generate(add("generate", commands.run_generate, "watts-strogatz --seed 1 --nodes 150 --output graph.json"))

    _import(add("import", commands.run_import, "cost-graph graph.pbtxt --stages 8 --output graph.json"))

    sub = add("new-solver", commands.run_new_solver, "my-idea --track pipeline")
    sub.add_argument("name", type=_solver_name, metavar="NAME")
    sub.add_argument("--track", required=True, choices=tracks())
    sub.add_argument("--directory", type=_path, metavar="DIR", help="default: solvers/TRACK, or here")

    sub = add("submit", commands.run_submit, "solvers/pipeline/my_idea.py")
    sub.add_argument("file", type=_path, metavar="FILE", help="a Python file, a TOML file of programs, or a program")
    sub.add_argument("--track", choices=tracks(), help="of a program; of a file, only its solvers of this track")


def _instance(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("instance", metavar="INSTANCE", help="a file, or an id from `shardmark list instances`")
    sub.add_argument("--track", choices=tracks(), help="default: recognised from the content")
    _track_options(sub)


def _track_options(sub: argparse.ArgumentParser) -> None:
    """What instances can be read with, of every track."""
    readers: Mapping[type, Callable[[str], Any]] = {int: _positive_int, float: _positive, str: str}
    for track in tracks():
        for name, option in track_module(track).OPTIONS.items():
            usual = f", default: {option.default}" if option.default is not None else ""
            sub.add_argument(
                f"--{name}",
                type=readers[option.kind],
                choices=option.choices or None,
                metavar=None if option.choices else PLACEHOLDERS[option.kind],
                help=f"{option.meaning} ({track}{usual})",
            )


def _settings(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--set",
        action="append",
        type=_setting,
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the solvers named, which makes them variants; @FILE: its text; may be repeated",
    )


def _limits(sub: argparse.ArgumentParser, *, seed: bool = True) -> None:
    sub.add_argument("--timeout", type=_seconds, metavar="S", help="seconds of wall time (default: the instance's)")
    sub.add_argument(
        "--memory",
        type=_seconds,
        default=DEFAULT_MEMORY_MIB,
        metavar="MIB",
        help="MiB for all processes of the run (default: %(default)g)",
    )
    sub.add_argument("--cores", type=_positive_int, default=1, metavar="N", help="default: 1")
    sub.add_argument("--cpu", type=_seconds, metavar="S", help="seconds of CPU time (default: what the cores can give)")
    sub.add_argument(
        "--processes",
        type=_positive_int,
        default=Limits.processes,
        metavar="N",
        help="alive at once (default: %(default)s)",
    )
    sub.add_argument(
        "--output-limit",
        type=_seconds,
        default=Limits.output_mib,
        metavar="MIB",
        help="MiB that a run may print, report and write (default: %(default)g)",
    )
    _backend(sub)
    if seed:
        sub.add_argument("--seed", type=_natural, default=0, metavar="N", help="default: 0")


def _backend(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--limits", choices=LIMITS, default="auto", help="what holds runs to their limits (default: auto)")
    sub.add_argument("--isolation", choices=ISOLATION, default="auto", help="none: runs see and reach all that you can")


def _results(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--results", type=_path, default=Path("results"), metavar="DIR", help="default: results")


def _solver_path(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--solver-path",
        action="append",
        type=_path,
        default=[],
        metavar="PATH",
        help="more solvers: a file or a folder",
    )


def _reproduce(sub: argparse.ArgumentParser) -> None:
    from leaderboard.reproductions import options, reproductions

    members = sub.add_subparsers(dest="name", metavar="NAME", required=True)
    for name, module in reproductions().items():
        about = " ".join(unmarked(module.__doc__).split("\n\n")[0].split())
        example = f"example: shardmark reproduce {name}"
        member = members.add_parser(name, help=about, description=about, epilog=example)
        for key, option in options(module.DEFAULTS).items():
            read, placeholder = READERS[option.kind]
            shown = ",".join(map(str, option.default)) if isinstance(option.default, tuple) else str(option.default)
            member.add_argument(
                f"--{key.replace('_', '-')}",
                type=read,
                default=option.default,
                choices=option.choices or None,
                metavar=None if option.choices else placeholder,
                help=f"{option.meaning} (default: {shown})",
            )
        member.add_argument("--cores", type=_positive_int, default=1, metavar="N", help="of a run (default: 1)")
        member.add_argument("--jobs", type=_positive_int, metavar="N", help="runs at once (default: as many as fit)")
        member.add_argument(
            "--memory",
            type=_seconds,
            default=DEFAULT_MEMORY_MIB,
            metavar="MIB",
            help="MiB of a run (default: %(default)g)",
        )
        member.add_argument(
            "--results",
            type=_path,
            default=Path("results/reproduce"),
            metavar="DIR",
            help="its runs; graphs go to DIR-graphs",
        )
        member.add_argument("--output", type=_path, default=Path("site"), metavar="DIR", help="site (default: site)")
        member.add_argument("--quiet", action="store_true", help="no progress")
        member.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for machines")
        member.add_argument("--retry-failed", action="store_true", help="do again what did not end well")
        member.set_defaults(executor="local")
        _backend(member)


def _generate(sub: argparse.ArgumentParser) -> None:
    from instances.generate import MEANING, families

    members = sub.add_subparsers(dest="family", metavar="FAMILY", required=True)
    for name, family in families().items():
        member = members.add_parser(
            name,
            help=f"{family.track}: {family.description}",
            description=f"{family.description} Source: {family.source}" if family.source else family.description,
            epilog=f"example: shardmark generate {name} --seed 1 --output {name}.json",
        )
        member.add_argument("--seed", type=_natural, default=0, metavar="N", help="default: 0")
        member.add_argument("--output", type=Path, required=True, metavar="FILE", help="gzip if it ends in .gz")
        member.add_argument("--json", action="store_true", help="print JSON for machines")
        for key, default in family.parameters.items():
            kind = type(default) if default is not None else float
            meaning = f"{MEANING[key].replace('%', '%%')} (default: {default})"
            member.add_argument(
                f"--{key.replace('_', '-')}", dest=key, type=READ[kind], metavar=PLACEHOLDERS[kind], help=meaning
            )


def _import(sub: argparse.ArgumentParser) -> None:
    from instances.importers import importers

    members = sub.add_subparsers(dest="importer", metavar="FORMAT", required=True)
    for name, importer in importers().items():
        about = " ".join(unmarked(importer.__doc__).split("\n\n")[0].split())
        stages = "--stages 8 " if "stages" in importer.OPTIONS else ""
        member = members.add_parser(
            name,
            help=f"{importer.TRACK}: {about}",
            description=unmarked(importer.__doc__),
            epilog=f"example: shardmark import {name} FILE {stages}--output graph.json",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        member.add_argument("file", type=_path, metavar="FILE", help="plain or gzip")
        member.add_argument("--output", type=Path, required=True, metavar="FILE", help="gzip if it ends in .gz")
        member.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for machines")
        for key, option in importer.OPTIONS.items():
            member.add_argument(
                f"--{key.replace('_', '-')}",
                type=READ[option.kind],
                metavar=None if option.choices else PLACEHOLDERS[option.kind],
                choices=option.choices or None,
                default=option.default,
                help=option.meaning,
            )


def _path(text: str) -> Path:
    """A path that there may or may not be; one that the system cannot even look for is refused."""
    try:
        os.stat(text)
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise argparse.ArgumentTypeError(f"expected a path ({error.strerror}), found {text!r}") from None
    return Path(text)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {text!r}")
    return name, value


def _whole(text: str, least: int = -MOST_SEED, most: int = MOST_SEED) -> int:
    """A whole number in decimal digits, within a range."""
    number = int(text) if re.fullmatch("[+-]?[0-9]{1,20}", text) else None
    if number is None or not least <= number <= most:
        within = "" if least < 0 else f" from {least} to {most}"
        raise argparse.ArgumentTypeError(f"expected a whole number{within}, found {text!r}")
    return number


def _positive_int(text: str) -> int:
    return _whole(text, 1, MOST)


def _natural(text: str) -> int:
    return _whole(text, 0, MOST_SEED)


def _count(text: str) -> int:
    return _whole(text, 0, MOST)


def _seeds(text: str) -> int:
    return _whole(text, 1, MOST_SEEDS)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, found {text!r}") from None


def _numbers(text: str) -> list[int]:
    """Numbers in increasing order, from a list of numbers and ranges."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        found |= set(range(_whole(first, 0, MOST_CPU), _whole(last if dash else first, 0, MOST_CPU) + 1))
    if not found:
        raise argparse.ArgumentTypeError(f"expected numbers and ranges as 0,2,4-7, found {text!r}")
    return sorted(found)


def _from_one(text: str) -> tuple[int, ...]:
    return tuple(sorted({_whole(word, 1, MOST) for word in text.split(",")}))


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in text.split(",") if name))


def _seconds(text: str) -> float:
    return _positive(text, "1e9")


def _positive(text: str, limit: str = "1e300") -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < float(limit):
        raise argparse.ArgumentTypeError(f"expected a positive number below {limit}, found {text!r}")
    return value


def _solver_name(text: str) -> str:
    from solvers.registry import NAME

    name = text.replace("-", "_")
    if not NAME.fullmatch(text) or not name.isidentifier() or keyword.iskeyword(name):
        expected = "expected lower-case letters, digits and dashes that make a name for a Python function"
        raise argparse.ArgumentTypeError(f"{expected}, found {text!r}")
    return text


#: How options of generators and importers are read, by the type of their values.
READ: Mapping[type, Callable[[str], Any]] = {int: _whole, float: _number, str: str, Path: _path}
#: How options of reproductions are read, by their kind, and what stands for their value in help.
READERS: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "count": (_count, "N"),
    "positive": (_positive_int, "N"),
    "numbers": (_from_one, "LIST"),
    "names": (_names, "LIST"),
    "seconds": (_seconds, "S"),
    "text": (str, "X"),
}


if __name__ == "__main__":
    sys.exit(main())
