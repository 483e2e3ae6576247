"""Commands of the command line, and options that several of them share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.sandbox.contract import ISOLATION, LIMITS, Limits
from instances import InputError, track_module, tracks
from instances.files.jsonfile import require_writable
from shardmark.cli import values

if TYPE_CHECKING:
    from instances.options import Option

Answer = tuple[int, Any]  # exit status, and what is printed: an object or a list of objects

DEFAULT_MEMORY_MIB = 4096.0

#: Placeholder for the value of an option in help, by its type.
PLACEHOLDERS: Mapping[type, str] = {int: "N", float: "X", str: "NAME", Path: "FILE", dict: "NAME=N"}


@dataclass(frozen=True)
class Command:
    """One command: ``run`` takes its options, its docstring is the help; ``arguments`` adds them to a parser.

    ``example`` has arguments for the help.
    """

    name: str
    run: Callable[[argparse.Namespace], Answer]
    arguments: Callable[[argparse.ArgumentParser], None]
    example: str


def add_instance(sub: argparse.ArgumentParser) -> None:
    """Add the instance that a command is about."""
    sub.add_argument("instance", metavar="INSTANCE", help="a file, or an id from `shardmark list instances`")
    sub.add_argument("--track", choices=tracks(), help="default: recognised from the content")
    add_track_options(sub)


def add_track_options(sub: argparse.ArgumentParser) -> None:
    """Add the options of the instances of every track."""
    readers: Mapping[type, Callable[[str], Any]] = {int: values.positive_int, float: values.positive, str: str}
    for track in tracks():
        for name, option in track_module(track).OPTIONS.items():
            usual = f", default: {option.default}" if option.default is not None else ""
            add_option(sub, name, option, f"{option.meaning} ({track}{usual})", type=readers[option.kind])


def add_settings(sub: argparse.ArgumentParser) -> None:
    """Add parameters of solvers."""
    sub.add_argument(
        "--set",
        action="append",
        type=values.setting,
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the named solvers, which makes them variants; @FILE: text of a file; may be repeated",
    )


def add_limits(sub: argparse.ArgumentParser, *, seed: bool = True) -> None:
    """Add the limits of a run, and the backend that enforces them."""
    sub.add_argument(
        "--timeout", type=values.seconds, metavar="S", help="seconds of wall time (default: the instance's limit)"
    )
    add_memory(sub, "MiB for all processes of the run")
    sub.add_argument("--cores", type=values.positive_int, default=1, metavar="N", help="CPUs per run (default: 1)")
    sub.add_argument(
        "--cpu", type=values.seconds, metavar="S", help="seconds of CPU time (default: as much as the cores can give)"
    )
    sub.add_argument(
        "--processes",
        type=values.positive_int,
        default=Limits.processes,
        metavar="N",
        help="processes alive at once (default: %(default)s)",
    )
    sub.add_argument(
        "--output-limit",
        type=values.seconds,
        default=Limits.output_mib,
        metavar="MIB",
        help="MiB that a run may print, report and write (default: %(default)g)",
    )
    add_backend(sub)
    if seed:
        sub.add_argument(
            "--seed", type=values.natural, default=0, metavar="N", help="seed of random numbers (default: 0)"
        )


def add_memory(sub: argparse.ArgumentParser, meaning: str) -> None:
    """Add the memory limit of a run."""
    words = f"{meaning} (default: %(default)g)"
    sub.add_argument("--memory", type=values.seconds, default=DEFAULT_MEMORY_MIB, metavar="MIB", help=words)


def add_option(sub: argparse.ArgumentParser, name: str, option: Option, meaning: str, **given: Any) -> None:
    """Add an option of a track or an importer."""
    sub.add_argument(
        f"--{name.replace('_', '-')}",
        choices=option.choices or None,
        metavar=None if option.choices else PLACEHOLDERS[option.kind],
        help=meaning,
        **given,
    )


def add_backend(sub: argparse.ArgumentParser) -> None:
    """Add the choice of a backend."""
    sub.add_argument("--limits", choices=LIMITS, default="auto", help="backend that enforces limits (default: auto)")
    sub.add_argument("--isolation", choices=ISOLATION, default="auto", help="none: runs can access whatever you can")


def add_results(sub: argparse.ArgumentParser) -> None:
    """Add the folder of results."""
    sub.add_argument(
        "--results", type=values.path, default=Path("results"), metavar="DIR", help="results folder (default: results)"
    )


def add_solver_path(sub: argparse.ArgumentParser) -> None:
    """Add the paths of more solvers."""
    sub.add_argument(
        "--solver-path",
        action="append",
        type=values.path,
        default=[],
        metavar="PATH",
        help="a file or folder with more solvers; may be repeated",
    )


def given_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the instance that the command line sets."""
    names = [name for track in tracks() for name in track_module(track).OPTIONS]
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}


def require_outputs(*files: Path | None) -> None:
    """Raise InputError for a file that could not be written later; None is skipped."""
    for file in filter(None, files):
        require_writable(file)


def check_settings(options: argparse.Namespace) -> None:
    """Raise InputError for parameters without a named solver."""
    if options.set and not options.solver:
        raise InputError("--set", repr(options.set[0][0]), "expected only with --solver")
