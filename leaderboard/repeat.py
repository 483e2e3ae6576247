"""The command that repeats a run: the instance with its options, the method with its parameters, seed and limits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from shlex import join
from typing import Any

from harness.campaign.settings import declared_and_settings
from harness.sandbox.contract import DEFAULT_MEMORY_MIB, Limits
from instances import track_module
from leaderboard.attachments import Origin
from leaderboard.pages.tracks import Row

FILE = "FILE"  # stands for the path of an instance that is not of the catalog


def command(instance: Row, origin: Origin | None, method: Row, run: Row, campaign: Sequence[str]) -> str:
    """Return the command that repeats a run.

    ``run`` has ``seed timeout_s memory_mib cores cpu_limit_s processes output_mib``, and ``campaign`` is the command
    line that started it. Without an ``origin`` in the catalog the instance is `FILE`, of the row's track.
    """
    reference, options = FILE if origin is None else origin.entry.id, [*_options(instance, origin, campaign)]
    track = ["--track", instance["track"]] if origin is None else []
    paths = [word for path in _given(campaign, "--solver-path") for word in ("--solver-path", path)]
    limits, seed = [*_limits(run)], ["--seed", str(run["seed"])]
    name, settings = declared_and_settings(method["solver"], json.loads(method["params"]))
    given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    if method["kind"] == "bound" and given:  # only campaigns take parameters of bound methods
        what = ["run", "--instance", reference, *options, "--solver", name, *given, "--seeds", "1", *paths, *limits]
    elif method["kind"] == "bound":
        what = ["bound", reference, *track, *options, "--method", name, *paths, *limits, *seed]
    elif method["description"] in map(str.strip, _given(campaign, "--command")):
        what = ["solve", reference, *track, *options, "--command", method["description"], *limits, *seed]
    else:
        what = ["solve", reference, *track, *options, "--solver", name, *given, *paths, *limits, *seed]
    return join(["shardmark", *what])


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


def _limits(run: Row) -> Iterator[str]:
    """Yield the options of the limits that are not the command line's own."""
    timeout, memory, cores = run["timeout_s"], run["memory_mib"], run["cores"]
    usual = Limits(timeout, memory, cores)
    yield from ("--timeout", _number(timeout))
    for option, value, default in (
        ("--memory", memory, DEFAULT_MEMORY_MIB),
        ("--cores", cores, 1),
        ("--cpu", run["cpu_limit_s"], usual.cpu_limit_s),
        ("--processes", run["processes"], usual.processes),
        ("--output-limit", run["output_mib"], usual.output_mib),
    ):
        if value is not None and value != default:
            yield from (option, _number(value))


def _number(value: float) -> str:
    """Return the shortest text of a number."""
    return f"{value:g}" if float(f"{value:g}") == value else str(value)


def _given(words: Sequence[str], option: str) -> list[str]:
    """Return the values of an option on a command line."""
    after = [value for before, value in pairwise(words) if before == option]
    return after + [word.removeprefix(f"{option}=") for word in words if word.startswith(f"{option}=")]
