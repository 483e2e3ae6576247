"""The commands that repeat runs: the instance with its options, the method with its parameters, seed and limits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from shlex import quote
from typing import Any

from shardmark.harness.campaign.discover import discover
from shardmark.harness.campaign.settings import declared_and_settings
from shardmark.harness.sandbox.contract import DEFAULT_MEMORY_MIB, Limits
from shardmark.instances import track_module
from shardmark.leaderboard.attachments import Origin
from shardmark.leaderboard.pages.tracks import Row

LIMITS = ("timeout_s", "memory_mib", "cores", "cpu_limit_s", "processes", "output_mib")  # columns of runs
FILE = "FILE"  # stands for the path of an instance that is not of the catalog


def commands(
    instance: Row, origin: Origin | None, runs: Sequence[tuple[Row, Row]], campaigns: Mapping[int, Sequence[str]]
) -> list[str]:
    """Return the commands that repeat runs on an instance, each given as its method and itself.

    A run has ``seed campaign timeout_s memory_mib cores cpu_limit_s processes output_mib``; ``campaigns`` has the
    command lines. Without an ``origin`` in the catalog the instance is `FILE`, of the row's track.
    """
    reference = [FILE, "--track", instance["track"]] if origin is None else [origin.entry.id]
    options = {number: [*_options(instance, origin, campaigns[number])] for number in {r["campaign"] for _, r in runs}}
    return [
        _command(reference, options[run["campaign"]], method, run, campaigns[run["campaign"]], instance["track"])
        for method, run in runs
    ]


def _command(
    reference: Sequence[str], options: Sequence[str], method: Row, run: Row, campaign: Sequence[str], track: str
) -> str:
    limits, seed = _limits(*(run[name] for name in LIMITS)), ["--seed", str(run["seed"])]
    name, given = _named(method["solver"], method["params"])
    paths = [word for path in _given(campaign, "--solver-path") for word in ("--solver-path", path)]
    if paths and (track, name) in _own_methods():
        paths = []
    if method["kind"] == "bound" and given:  # only campaigns take parameters of bound methods
        what = ["run", "--instance", reference[0], *options, "--solver", name, *given, "--seeds", "1", *paths, *limits]
    elif method["kind"] == "bound":
        what = ["bound", *reference, *options, "--method", name, *paths, *limits, *seed]
    elif method["description"] in map(str.strip, _given(campaign, "--command")):
        what = ["solve", *reference, *options, "--command", method["description"], *limits, *seed]
    else:
        what = ["solve", *reference, *options, "--solver", name, *given, *paths, *limits, *seed]
    return " ".join(map(_quoted, ["shardmark", *what]))


@cache
def _own_methods() -> frozenset[tuple[str, str]]:
    """Return track and name of the methods that need no ``--solver-path``: those of the project and of packages."""
    return frozenset((info.track, info.name) for info in discover())


_quoted = cache(quote)  # most words are in many commands


@cache
def _named(solver: str, params: str) -> tuple[str, Sequence[str]]:
    """Return the name of a method that the command line knows, and the options that set its parameters."""
    name, settings = declared_and_settings(solver, json.loads(params))
    return name, [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def _options(instance: Row, origin: Origin | None, campaign: Sequence[str]) -> Iterator[str]:
    """Yield the options of the instance: those beyond the catalog's, or all that differ from their defaults."""
    if origin is not None:
        values: Mapping[str, Any] = origin.options
    else:
        summary = json.loads(instance["summary"])
        values = {
            name: summary[name]
            for name, option in track_module(instance["track"]).OPTIONS.items()
            if summary.get(name) is not None and (summary[name] != option.default or _given(campaign, _option(name)))
        }
    for name, value in values.items():
        yield from (_option(name), _number(value) if isinstance(value, float) else str(value))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@cache
def _limits(
    timeout: float, memory: float, cores: int, cpu: float | None, processes: int | None, output: float | None
) -> Sequence[str]:
    """Return the options of the limits that are not the command line's own."""
    usual = Limits(timeout, memory, cores)
    limits = (
        ("--memory-limit", memory, DEFAULT_MEMORY_MIB),
        ("--cores", cores, 1),
        ("--cpu", cpu, usual.cpu_limit_s),
        ("--processes", processes, usual.processes),
        ("--output-limit", output, usual.output_mib),
    )
    chosen = [(option, value) for option, value, default in limits if value is not None and value != default]
    return ["--timeout", _number(timeout), *(word for option, value in chosen for word in (option, _number(value)))]


def _number(value: float) -> str:
    """Return the shortest text of a number."""
    return f"{value:g}" if float(f"{value:g}") == value else str(value)


def _given(words: Sequence[str], option: str) -> list[str]:
    """Return the values of an option on a command line."""
    after = [value for before, value in pairwise(words) if before == option]
    return after + [word.removeprefix(f"{option}=") for word in words if word.startswith(f"{option}=")]
