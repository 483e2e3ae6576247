"""Finds the instances and solutions that users name: files, ids of the catalog, and values in memory."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from shardmark.harness.campaign.problems import Problem
from shardmark.harness.records import certificates
from shardmark.harness.records.best import RECORDS, BestKnown, by_checksum
from shardmark.harness.results import grades
from shardmark.harness.results.claims import contradicts
from shardmark.harness.results.grades import Evidence
from shardmark.harness.results.records import number
from shardmark.harness.verify import longest_solution, verify_reported
from shardmark.instances import InputError, catalog, save, track_module, tracks
from shardmark.instances.evaluator import Evaluator
from shardmark.instances.files.jsonfile import plain_json, read_json

if TYPE_CHECKING:
    from shardmark.outcomes import Cost, RunResult

#: A cost or bound and its source.
Stated: TypeAlias = "tuple[Cost, str]"

Evaluator.verdict = staticmethod(verify_reported)

#: The problem of an instance in memory, and the SHA-256 of the file it was read from: runs read the same file.
_origins: WeakKeyDictionary[Any, tuple[Problem, str]] = WeakKeyDictionary()


def find_problem(
    reference: str | os.PathLike[str], track: str | None = None, options: Mapping[str, Any] | None = None
) -> Problem:
    """Return the problem that a file or an id of the catalog names; ``options`` add to the catalog's or override them.

    With other options it is another instance, about which nothing was published. Options whose values are those of the
    file, or the defaults, change nothing and are left out, so that records of the instance are found.
    """
    if not isinstance(reference, str | os.PathLike):
        expected = f"expected a file or an id of the catalog, found {type(reference).__name__}"
        raise InputError("instance", "", expected)
    path, entry = catalog.resolve(os.fsdecode(reference))
    if entry is None:
        return _with_options(Problem(path.name, path, track), dict(options or {}))
    if track not in (None, entry.track):
        raise InputError(entry.id, "track", f"expected {entry.track}, found {track}")
    stated = Problem.of(entry, path)
    found = _with_options(stated, {**entry.options, **(options or {})})
    return found if found.options == entry.options else replace(found, published={})


def _with_options(problem: Problem, given: Mapping[str, Any]) -> Problem:
    """Return a problem with the given options, less those that the file or a default sets to the same value.

    The problem's own options stay if they are among those given. If the file cannot be read without the others, they
    all stay, and what is wrong is told when it is read.
    """
    kept = {name: value for name, value in problem.options.items() if _same(given.get(name), value)}
    if len(kept) == len(given):
        return problem
    plain = replace(problem, options=kept)
    try:
        instance = plain.instance
    except InputError:
        return replace(problem, options=given)
    known = track_module(instance.track).OPTIONS
    changed = {x: value for x, value in given.items() if not (x in known and _same(value, getattr(instance, x)))}
    return replace(problem, options=kept | changed) if changed.keys() - kept.keys() else plain


def _same(value: Any, other: Any) -> bool:
    """Return True for equal values of one type: the number 8.0 is no number of stages."""
    return type(value) is type(other) and bool(value == other)


def remember(problem: Problem) -> Any:
    """Return the instance of a problem, and remember its origin for `problem_of` while the instance is alive."""
    instance = problem.instance
    _origins[instance] = replace(problem, path=problem.path.absolute()), problem.content_hash
    return instance


@contextmanager
def problem_of(instance: Any) -> Iterator[Problem]:
    """Yield the problem of a file, an id or an instance; an instance from memory is written to a temporary file."""
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
        name: value for name, option in options.items() if (value := getattr(problem.instance, name)) != option.default
    }


@dataclass(frozen=True)
class Known:
    """Costs and lower bounds of an instance known before a run, each with its source.

    Sources are "instance" (its own simple bound), "published", and "records": the record of an instance is found by
    the checksum of content, track and options, not by the file's name.
    """

    costs: Sequence[Stated]
    bounds: Sequence[Stated]
    published: Mapping[str, Any] = field(default_factory=dict)
    record: BestKnown | None = None

    @classmethod
    def of(cls, problem: Problem) -> Known:
        """Return what is known of a problem."""
        record, published, simple = _records().get(problem.checksum), problem.published, problem.summary["simple_bound"]
        kind = type(simple)  # float where costs are: "11" is written like an integer, but has their tolerance
        costs = [(kind(number(published["best_cost"])), "published")] if "best_cost" in published else []
        bounds = [(simple, "instance")]
        bounds += [(kind(number(published["lower_bound"])), "published")] if "lower_bound" in published else []
        costs += [(kind(record.cost.number), RECORDS)] if record and record.cost else []
        bounds += [(kind(record.bound.number), RECORDS)] if record and record.bound else []
        return cls(costs, bounds, published, record)

    def grade(self, track: str, bound: Cost | None, cost: Cost | None, run: Evidence | None = None) -> str:
        """The grade of a lower bound, from all that is known and what a run proved; "" without a bound."""
        if bound is None:
            return ""
        known = grades.published(self.published) if self.record is None else certificates.evidence(self.record)
        return grades.grade(track, [*known, *([run] if run else [])], bound, self._least(cost))

    @property
    def best(self) -> tuple[Cost | None, str]:
        """The least cost and its source; the first one among ties."""
        return min(self.costs, key=lambda stated: stated[0], default=(None, ""))

    @property
    def verified(self) -> Cost | None:
        """The cost of the record, which the referee verified."""
        return next((cost for cost, source in self.costs if source == RECORDS), None)

    def greatest_bound(self, cost: Cost | None = None, run: RunResult | None = None) -> Stated:
        """The greatest lower bound and its source, which may be a run; refuted bounds are ignored."""
        bounds = [bound for bound in self.bounds if bound not in self._refuted(cost)]
        if run is not None and run.lower_bound is not None and run.status != "contradiction":
            bounds.insert(1, (run.lower_bound, run.method))
        return max(bounds, key=lambda stated: stated[0])

    def contradiction(self, cost: Cost | None) -> str:
        """A sentence about the first bound above a verified cost, so that one of the two is wrong; else empty."""
        words = {"published": "published lower bound", RECORDS: "lower bound of the records"}
        for bound, source in self._refuted(cost):
            above = f"is above the verified cost {self._least(cost)!r}"
            return f"the {words[source]}, {bound!r}, {above}: one of the two is wrong"
        return ""

    def _least(self, cost: Cost | None) -> Cost | None:
        """Return the least verified cost: the given one or the record's."""
        return min((known for known in (cost, self.verified) if known is not None), default=None)

    def _refuted(self, cost: Cost | None) -> list[Stated]:
        """Return the stated bounds above a cost or the record's; the instance's own follows from its definition."""
        least = self._least(cost)
        return [
            (bound, source)
            for bound, source in self.bounds[1:]
            if least is not None and contradicts(bound, least, isinstance(least, int))
        ]


@cache
def _records() -> Mapping[str, BestKnown]:
    """Return the project's records by checksum, read once; a line that cannot be read is left out with a warning."""
    return by_checksum(wrong=lambda error: warnings.warn(f"skipped in the records: {error}", stacklevel=1))


def solution_of(solution: Any, instance: Any) -> Any:
    """Return a solution as plain JSON, from a file or from values in memory."""
    if isinstance(solution, str | os.PathLike):
        return read_json(os.fsdecode(solution), longest_solution(instance))
    if hasattr(solution, "solution"):  # a result or a plan
        raise InputError("solution", "", f"expected plain JSON, found a {type(solution).__name__}: pass its `solution`")
    return plain_json(solution, "solution", "plain JSON or the path of a file")
