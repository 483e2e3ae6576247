"""Commands of the command line, and options that several of them share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardmark.cli import values
from shardmark.harness.sandbox.contract import DEFAULT_MEMORY_MIB, ISOLATION, LIMITS, Limits
from shardmark.instances import InputError, track_module, tracks
from shardmark.instances.files.jsonfile import require_writable

if TYPE_CHECKING:
    from shardmark.instances.options import Option

Answer = tuple[int, Any]  # exit status, and what is printed: an object or a list of objects
FAULTY = 3  # exit status of a command that has an answer from a run that crashed, failed or made a refuted claim

#: Placeholder for the value of an option in help, by its type.
PLACEHOLDERS: Mapping[type, str] = {int: "N", float: "X", str: "NAME", Path: "FILE", dict: "NAME=N"}


@dataclass(frozen=True)
class Command:
    """A command: ``run`` executes it and has the help as its docstring; ``arguments`` adds its options to a parser.

    ``example`` is the example in the help.
    """

    name: str
    run: Callable[[argparse.Namespace], Answer]
    arguments: Callable[[argparse.ArgumentParser], None]
    example: str


def add_instance(sub: argparse.ArgumentParser) -> None:
    """Add the instance as an argument."""
    sub.add_argument("instance", metavar="INSTANCE", help="a file, or an id from `shardmark list instances`")
    add_track_options(sub, one=True)


def add_track_options(sub: argparse.ArgumentParser, *, one: bool = False, without: Collection[str] = ()) -> None:
    """Add the options of instances, by track; for a command on ``one`` instance also --track.

    An option of several tracks accepts the choices of all; reading refuses those of another track.
    """
    readers: Mapping[type, Callable[[str], Any]] = {int: values.positive_int, float: values.positive, str: str}
    group = sub.add_argument_group("the instance, by track")
    if one:
        group.add_argument(
            "--track", choices=tracks(), help="track of the instance (default: recognised from the content)"
        )
    for name, declared in _options_by_name().items():
        if name not in without:
            meaning = "; ".join(_of_track(track, option) for track, option in declared.items())
            first = next(iter(declared.values()))
            choices = tuple(dict.fromkeys(chain.from_iterable(option.choices for option in declared.values())))
            add_option(group, name, replace(first, choices=choices), meaning, type=readers[first.kind])


def _options_by_name() -> dict[str, dict[str, Option]]:
    """Return the options of all tracks by name and track."""
    found: dict[str, dict[str, Option]] = {}
    for track in tracks():
        for name, option in track_module(track).OPTIONS.items():
            found.setdefault(name, {})[track] = option
    return found


def _of_track(track: str, option: Option) -> str:
    usual = f", default: {option.default}" if option.default is not None else ""
    return f"{option.meaning} ({track}{usual})"


def add_settings(group: argparse._ActionsContainer) -> None:
    """Add parameters of solvers, and the paths of more solvers."""
    group.add_argument(
        "--set",
        action="append",
        type=values.setting,
        default=[],
        metavar="NAME=VALUE",
        help="set a parameter of the named solvers, as a variant; @FILE reads the value from a file; may be repeated",
    )
    add_solver_path(group)


def add_limits(sub: argparse.ArgumentParser, usual_s: float, *memory: str, seed: bool = True) -> None:
    """Add the limits of a run and their backend; ``usual_s`` is the time limit of instances without one.

    ``memory`` has more names of the memory limit.
    """
    group = sub.add_argument_group("limits of a run")
    add_timeout(group, f"wall time in seconds (default: the catalog's limit for the instance; {usual_s:g} for a file)")
    add_memory(group, "memory of all processes of the run in MiB; --memory too if no option of the instance", *memory)
    add_cores(group)
    group.add_argument(
        "--cpu", type=values.seconds, metavar="S", help="CPU time in seconds (default: as much as the cores can supply)"
    )
    group.add_argument(
        "--processes",
        type=values.positive_int,
        default=Limits.processes,
        metavar="N",
        help="number of processes alive at the same time (default: %(default)s)",
    )
    group.add_argument(
        "--output-limit",
        type=values.seconds,
        default=Limits.output_mib,
        metavar="MIB",
        help="printed, reported and written output in MiB (default: %(default)g)",
    )
    add_backend(group)
    if seed:
        add_seed(group)


def add_timeout(group: argparse._ActionsContainer, meaning: str, usual_s: float | None = None) -> None:
    """Add the limit on wall time."""
    group.add_argument("-t", "--timeout", type=values.seconds, default=usual_s, metavar="S", help=meaning)


def add_cores(group: argparse._ActionsContainer) -> None:
    """Add the number of cores."""
    words = "CPUs per run (default: 1)"
    group.add_argument("-c", "--cores", type=values.positive_int, default=1, metavar="N", help=words)


def add_seed(group: argparse._ActionsContainer) -> None:
    """Add the seed."""
    words = "seed of random numbers (default: 0)"
    group.add_argument("--seed", type=values.natural, default=0, metavar="N", help=words)


def add_memory(group: argparse._ActionsContainer, meaning: str, *names: str) -> None:
    """Add the memory limit of a run; ``names`` are more names of the option."""
    words = f"{meaning} (default: %(default)g)"
    names = ("--memory-limit", *names)
    group.add_argument(
        *names, type=values.seconds, default=DEFAULT_MEMORY_MIB, dest="memory_limit", metavar="MIB", help=words
    )


def add_output(group: argparse._ActionsContainer, meaning: str, *, required: bool = False) -> None:
    """Add the file that a command writes; `values.STDOUT` is the standard output."""
    words = f"{meaning}; - for standard output"
    group.add_argument("-o", "--output", type=values.path, required=required, metavar="FILE", help=words)


def add_quiet(group: argparse._ActionsContainer) -> None:
    """Add the option that turns off progress."""
    group.add_argument("-q", "--quiet", action="store_true", help="print no progress")


def add_site(group: argparse._ActionsContainer) -> None:
    """Add the folder of the site."""
    words = "folder of the site (default: site)"
    group.add_argument("-o", "--output", type=values.folder, default=Path("site"), metavar="DIR", help=words)


def add_jobs(group: argparse._ActionsContainer, usual: str) -> None:
    """Add the number of runs at once."""
    group.add_argument(
        "-j", "--jobs", type=values.positive_int, metavar="N", help=f"number of concurrent runs (default: {usual})"
    )


def add_retry(group: argparse._ActionsContainer) -> None:
    """Add the repetition of failed runs."""
    group.add_argument("--retry-failed", action="store_true", help="repeat runs whose status is not ok")


def add_json(group: argparse._ActionsContainer, **given: Any) -> None:
    """Add the option for machines."""
    group.add_argument("--json", action="store_true", help="print JSON, also for errors", **given)


def flag(name: str) -> str:
    """Return the option that sets a value of this name."""
    return f"--{name.replace('_', '-')}"


def add_option(group: argparse._ActionsContainer, name: str, option: Option, meaning: str, **given: Any) -> None:
    """Add an option of a track or an importer."""
    group.add_argument(
        flag(name),
        choices=option.choices or None,
        metavar=None if option.choices else PLACEHOLDERS[option.kind],
        help=meaning,
        **given,
    )


def add_limits_choice(group: argparse._ActionsContainer) -> None:
    """Add the choice of what enforces limits."""
    group.add_argument("--limits", choices=LIMITS, default="auto", help="backend that enforces limits (default: auto)")


def add_backend(group: argparse._ActionsContainer) -> None:
    """Add the choice of a backend and its isolation."""
    add_limits_choice(group)
    group.add_argument(
        "--isolation", choices=ISOLATION, default="auto", help="none: runs can access all that you can (default: auto)"
    )


def add_results(group: argparse._ActionsContainer, usual: str = "results", meaning: str = "results folder") -> None:
    """Add the folder of results."""
    words = f"{meaning} (default: {usual})"
    group.add_argument("-r", "--results", type=values.folder, default=Path(usual), metavar="DIR", help=words)


def add_solver_path(group: argparse._ActionsContainer) -> None:
    """Add the paths of more solvers."""
    group.add_argument(
        "--solver-path",
        action="append",
        type=values.path,
        default=[],
        metavar="PATH",
        help="file or folder with more solvers; may be repeated",
    )


def given_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options of the instance that the command line sets."""
    return {name: value for name in _options_by_name() if (value := getattr(options, name, None)) is not None}


def require_outputs(*files: Path | None, sources: Collection[str | Path | None] = ()) -> None:
    """Raise InputError for a file that cannot be written, or that is one of the ``sources``, which the command reads.

    None and the standard output are skipped, and so are sources that are not files, such as ids of the catalog.
    """
    for file in files:
        if file not in (None, values.STDOUT):
            target = require_writable(file)
            if any(_same(target, source) for source in sources if source is not None):
                raise InputError(file, "", "expected a file other than the input files")


def _same(target: Path, source: str | Path) -> bool:
    """True if both are one existing file."""
    return os.path.exists(target) and os.path.exists(source) and target.samefile(source)


def solver_files(options: argparse.Namespace) -> list[Path]:
    """Return the files of --solver-path, including those in folders."""
    from shardmark.solvers.registry import files_in

    return [file for path in options.solver_path for file in files_in(path, ".py")]


def check_settings(options: argparse.Namespace) -> None:
    """Raise InputError for parameters without a named solver."""
    if options.set and not options.solver:
        raise InputError("--set", repr(options.set[0][0]), "expected only with --solver")
