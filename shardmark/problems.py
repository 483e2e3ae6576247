"""Instances and solutions that users name: files, ids of the catalog, and values in memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from harness.campaign.problems import Problem
from harness.results.records import number
from harness.verify import longest_solution, verify_reported
from instances import InputError, catalog, save, track_module, tracks
from instances.files.jsonfile import plain_json, read_json
from instances.judged import Judged

if TYPE_CHECKING:
    from shardmark.outcomes import Cost, RunResult

Judged.verdict = staticmethod(verify_reported)

#: The problem of an instance in memory, and the SHA-256 of the file it was read from: runs read the same file.
_origins: WeakKeyDictionary[Any, tuple[Problem, str]] = WeakKeyDictionary()


def find_problem(
    reference: str | os.PathLike[str], track: str | None = None, options: Mapping[str, Any] | None = None
) -> Problem:
    """The problem that a file or an id of the catalog names; ``options`` add to the catalog's, or override them."""
    path, entry = catalog.resolve(os.fspath(reference))
    if entry is None:
        return Problem(path.name, path, track, dict(options or {}))
    if track not in (None, entry.track):
        raise InputError(entry.id, "track", f"expected {entry.track}, found {track}")
    return replace(Problem.of(entry, path), options={**entry.options, **(options or {})})


def remember(problem: Problem) -> Any:
    """Return the instance of a problem, and remember its origin for `problem_of` while the instance is alive."""
    instance = problem.instance
    _origins[instance] = replace(problem, path=problem.path.absolute()), problem.content_hash
    return instance


@contextmanager
def problem_of(instance: Any) -> Iterator[Problem]:
    """Yield the problem of a file, an id or an instance; one made in memory is in a temporary file meanwhile."""
    if isinstance(instance, str | os.PathLike):
        yield find_problem(instance)
    elif getattr(instance, "track", None) not in tracks():
        expected = f"expected a file, an id of the catalog or an instance, found {type(instance).__name__}"
        raise InputError("instance", "", expected)
    elif instance in _origins:
        origin, content_hash = _origins[instance]
        yield origin.holding(instance, content_hash)
    else:
        with tempfile.TemporaryDirectory(prefix="shardmark-") as folder:
            path = Path(folder) / "instance.json"
            save(instance, path)
            yield Problem(instance.name or path.name, path, instance.track)


def nondefault_options(problem: Problem) -> dict[str, Any]:
    """Options of the instance, given or from its file, that differ from their defaults."""
    options = track_module(problem.instance.track).OPTIONS
    return {
        name: value
        for name, option in options.items()
        if (value := getattr(problem.instance, name)) != option.default
        and (option.default is not None or name in problem.options)
    }


def greatest_bound(problem: Problem, run: RunResult | None = None) -> tuple[Cost, str]:
    """The greatest lower bound known and its source: the instance itself, a publication, or a run."""
    bounds = [(problem.summary["simple_bound"], "instance")]
    if run is not None and run.lower_bound is not None and run.status != "contradiction":
        bounds.append((run.lower_bound, run.method))
    if not problem.options and "lower_bound" in problem.published:
        bounds.append((number(problem.published["lower_bound"]), "published"))
    return max(bounds, key=lambda known: known[0])


def solution_of(solution: Any, instance: Any) -> Any:
    """A solution as plain JSON, from a file or from values in memory."""
    if isinstance(solution, str | os.PathLike):
        return read_json(solution, longest_solution(instance))
    return plain_json(solution, "solution", "plain JSON or the path of a file")
