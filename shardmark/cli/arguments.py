"""The command line: ``shardmark COMMAND``, also ``python -m shardmark``.

Exit status 0 for success, 1 for "no" (infeasible, nothing found, a check failed), 2 for bad input or usage, 3 if an
answer was found but its run crashed, failed or made a refuted claim, 128 + N if signal N ended it: 130 for Ctrl-C, 143
for SIGTERM.

With ``--json``, standard output has one JSON value, unless a file was written there: the answer, or an object ``error``
with the exit ``status`` and the sentence on standard error. If only the output could not be written, the answer has
``error`` as an additional key.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from shardmark.cli.commands import (
    campaigns,
    completion,
    editions,
    files,
    lists,
    one_run,
    planning,
    records,
    reports,
    review,
)
from shardmark.cli.options import add_json
from shardmark.cli.output import NotWrittenError, drop_output, emit, open_streams, say, tell
from shardmark.cli.terminal import in_colour, painted, printable, without_backticks
from shardmark.cli.values import STDOUT
from shardmark.instances import InputError
from shardmark.instances.catalog import near_miss

COMMANDS = (
    *lists.COMMANDS,
    *one_run.COMMANDS,
    *planning.COMMANDS,
    *campaigns.COMMANDS,
    *reports.COMMANDS,
    *records.COMMANDS,
    *editions.COMMANDS,
    *files.COMMANDS,
    *review.COMMANDS,
    *completion.COMMANDS,
)


EPILOG = """exit status:
  0        success
  1        no: infeasible, nothing found, or a check failed
  2        bad input, explained in one sentence
  3        an answer was found, but its run crashed, failed or made a claim that was refuted
  128 + N  ended by signal N

Colour is for terminals only; the environment variable NO_COLOR turns it off.
`shardmark completion --help` explains shell completion of commands, options and names."""


class UsageError(Exception):
    """A command line that cannot be parsed: ``message`` in one sentence, and the text to ``show`` for it."""

    def __init__(self, message: str, show: str) -> None:
        super().__init__(message)
        self.show = show


#: What argparse says about a value that is none of the choices.
MISSING = re.compile(r"the following arguments are required: |one of the arguments .* is required$")
CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)$")

#: The option of other commands that names a method, for each that does.
OTHER_KIND = {"--solver": "--method", "-s": "--method", "--method": "--solver", "-m": "--solver"}


class Parser(argparse.ArgumentParser):
    """Parser whose errors are one sentence: a wrong value, an unknown argument or a missing one.

    A command that needs arguments and gets none shows its help. Options cannot be abbreviated: in a command without
    ``--output``, argparse would take it for ``--output-limit``.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        self.bare, self.given = False, list[str]()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments, none of them unknown; note if there are none."""
        self.bare, self.given = args is not None and not args, list(args or ())
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self._refuse(unknown)
        return found, unknown

    def _refuse(self, unknown: Sequence[str]) -> NoReturn:
        """Raise UsageError for unknown arguments, with an option that the first one may have been meant for."""
        message = shortened(f"unrecognized arguments: {' '.join(unknown)}")
        meant = OTHER_KIND.get(unknown[0].split("=")[0], unknown[0])
        known = self._option_string_actions
        hint = near_miss(meant if meant in known else unknown[0], known) or self._help_lists_options()
        raise UsageError(message, f"{self.prog}: {message}{hint}\n")

    def error(self, message: str) -> NoReturn:
        """Raise UsageError; `argparse` calls this while it handles what the value of an argument raised."""
        words = self.given[: self.given.index("--")] if "--" in self.given else self.given
        unknown = [x for x in words if x.startswith("--") and x.split("=")[0] not in self._option_string_actions]
        missing = MISSING.match(message)
        if unknown and missing:  # what is missing may well be what was misspelt
            self._refuse(unknown)
        choice = CHOICE.search(message)
        hint = near_miss(choice[1], choice[2].replace("'", "").split(", ")) if choice else ""
        message = shortened(message)
        if self.bare:
            raise UsageError(message, self.format_help())
        if missing:
            hint = self._help_lists_options()
        raise UsageError(message, f"{self.prog}: {message}{hint}\n")

    def _help_lists_options(self) -> str:
        return f"; `{self.prog} --help` lists the options"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    results, as_json = Path(), "--json" in given
    if completion.VARIABLE in os.environ:
        completion.complete(parser(os.environ.get("COMP_LINE", "").split()))
    try:
        open_streams()
        with _clean_end(), _told_warnings():
            try:
                options = parser(given).parse_args(given)
            finally:
                say("")  # flush help still in the buffer
            results = getattr(options, "results", results)
            status, answer = options.command(options)
            emit(answer, options.json, to_stderr=getattr(options, "output", None) == STDOUT)
    except UsageError as error:
        return failed(2, str(error), error.show, as_json)
    except InputError as error:
        return failed(2, shortened(str(error)), "", as_json)
    except NotWrittenError as error:
        if not as_json:
            with suppress(InputError, BrokenPipeError):
                emit(error.answer, as_json, to_stderr=options.output == STDOUT)
        return failed(2, shortened(str(error)), "", as_json, error.answer)
    except database_error() as error:
        from shardmark.harness.results.database import FILE_NAME

        expected = f"expected a database that can be read and written ({error})"
        return failed(2, printable(f"{results / FILE_NAME}: {expected}"), "", as_json)
    except PermissionError as error:
        if error.filename is None:
            raise
        expected = f"expected a file or folder that you have permission to use ({error.strerror})"
        return failed(2, shortened(f"{error.filename}: {expected}"), "", as_json)
    except MemoryError as error:
        return failed(2, f"expected enough memory{_memory(error)}", "", as_json)
    except KeyboardInterrupt as error:
        return failed(int(128 + (error.args[0] if error.args else signal.SIGINT)), "interrupted", "", as_json)
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        drop_output()
        return 141
    return int(status)


@contextmanager
def _told_warnings() -> Iterator[None]:
    """Show warnings as lines on standard error; repeat those of the project."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = lambda message, *_, **__: tell(f"warning: {message}")
        yield


def failed(status: int, message: str, show: str, as_json: bool, answer: Mapping[str, Any] | None = None) -> int:
    """Print an error, for people on standard error and for machines on standard output; return the exit status.

    An ``answer`` that was found before the error is part of what machines get.
    """
    sys.stderr.write(show or f"{painted('shardmark:', 'bad', in_colour(sys.stderr))} {message}\n")
    if as_json and sys.stdout is not None:
        with suppress(InputError, BrokenPipeError):  # the output may be what failed
            emit({**(answer or {}), "error": {"status": status, "message": message}}, as_json)
    return status


def _memory(error: MemoryError) -> str:
    """What a MemoryError says of the need, and a limit of the process."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    known = [str(error)] if str(error) else []
    if limit != resource.RLIM_INFINITY:
        known.append(f"`ulimit -v` leaves {limit >> 20:,} MiB of address space")
    return f" ({'; '.join(known)})" if known else ""


def database_error() -> type[Exception]:
    """Return the class of SQLite's errors, which is imported only to handle an exception."""
    import sqlite3

    return sqlite3.Error


def shortened(sentence: str) -> str:
    """Return a sentence with unprintable characters escaped and long words shortened in the middle."""
    return re.sub(r"\S{300,}", lambda word: f"{word[0][:100]}...{word[0][-100:]}", printable(sentence))


@contextmanager
def _clean_end() -> Iterator[None]:
    """End on SIGTERM and SIGHUP as on Ctrl-C: kill the runs, keep the finished ones."""

    def interrupt(number: int, _: object) -> NoReturn:
        raise KeyboardInterrupt(number)

    handled = [
        n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is not signal.SIG_IGN
    ]  # as under nohup
    before = {number: signal.signal(number, interrupt) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Version(argparse.Action):
    """Option that prints the version, which is looked up only then, as that takes a moment."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        """Print the version and exit."""
        from shardmark.harness.campaign import host

        say(f"shardmark {host.version()}\n")
        parser.exit()


def parser(given: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line; if words are given, only the commands among them get their options."""
    top = Parser(
        prog="shardmark",
        description="Split deep-learning graphs over devices, and prove how good the split is.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("-V", "--version", action=Version, nargs=0, help="show the program's version and exit")
    members = top.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        about = without_backticks(command.run.__doc__).strip()
        sub = members.add_parser(
            command.name,
            help=about.split("\n\n")[0],
            description=about,
            epilog=f"example: shardmark {command.name} {command.example}",
        )
        add_json(sub)
        sub.set_defaults(command=command.run)
        if given is None or command.name in given:  # collecting the options of all commands takes a second
            command.arguments(sub)
    return top


if __name__ == "__main__":
    sys.exit(main())
