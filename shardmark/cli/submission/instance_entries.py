"""The instances that a branch proposes: entries of the catalog, and their files."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from shardmark.cli.submission.changes import CATALOG, INSTANCE, Changes, Left, take
from shardmark.cli.submission.summary import LONGEST_NAME, NO, UNTESTED, YES
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.results.claims import contradicts
from shardmark.harness.results.ranking import Tables
from shardmark.harness.results.records import number
from shardmark.instances import InputError, catalog, track_module, tracks
from shardmark.instances.catalog import Entry
from shardmark.solvers.registry import NAME

LONGEST_S = 10.0  # greatest time limit of a run on a proposed instance
DECIMAL = re.compile(r"-?[0-9]{1,300}(\.[0-9]{1,100})?")


@dataclass
class Proposed:
    """An instance that a branch adds: its entry, its file's problem if that can be read, and its checks."""

    id: str
    track: str
    problem: Problem | None
    checks: list[dict[str, str]] = field(default_factory=list)
    details: list[str] = field(default_factory=list)

    def check(self, name: str, passed: str, detail: str = "") -> None:
        """Note the result of a check."""
        self.checks.append({"check": name, "passed": passed})
        if passed == NO:
            self.details.append(f"{self.id}: {name}: {detail}")


def proposed_instances(found: Changes, scratch: Path) -> tuple[list[Proposed], list[Left]]:
    """Return the instances that a branch adds, as far as their entries and files can be read; and what is left."""
    files = {file.path: take(file, scratch) for file in found.of(INSTANCE)}
    try:
        tables = _tables(found)
    except (ValueError, RecursionError):  # InputError, or tomllib's, which has its own for long numbers and deep arrays
        return [], [Left(path.encode(), "malformed") for path in (CATALOG, *files)]
    known = {entry.id for entry in catalog.entries()}
    proposed = []
    for table in tables:
        entry = _entry(table)
        if entry is None:
            return [], [Left(path.encode(), "malformed") for path in (CATALOG, *files)]
        path = files.pop(f"instances/data/{entry.path}", None)
        proposed.append(_read(entry, path, entry.id in known))
        known.add(entry.id)
    return proposed, [Left(path.encode(), "outside") for path in files]


def _tables(found: Changes) -> list[dict[str, Any]]:
    """Return the entries that a branch adds to the catalog; InputError if it adds anything else."""
    added = found.of(CATALOG)
    if not added:
        return []
    text = catalog.CATALOG.read_text(encoding="utf-8")
    before, after = tomllib.loads(text), tomllib.loads(f"{text}\n{added[0].content.decode()}")
    known = before["instances"]
    if after["instances"][: len(known)] != known or {**after, "instances": known} != before:
        raise InputError(CATALOG, "", "expected tables [[instances]] at the end, and nothing else")
    new: list[dict[str, Any]] = after["instances"][len(known) :]
    return new


def _entry(table: Mapping[str, Any]) -> Entry | None:
    """Return an entry whose file comes with the project, None if it is not one."""
    try:
        entry = Entry(**{**table, "suites": tuple(table["suites"])})
    except (TypeError, KeyError):
        return None
    texts = (entry.id, entry.track, entry.path, entry.checksum, entry.note, entry.trap, *entry.suites)
    if not all(isinstance(text, str) for text in texts) or not NAME.fullmatch(entry.id) or len(entry.id) > LONGEST_NAME:
        return None
    limit = entry.time_limit_s
    if entry.track not in tracks() or isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0:
        return None
    if not isinstance(entry.options, dict) or not entry.options.keys() <= track_module(entry.track).OPTIONS.keys():
        return None
    if not isinstance(entry.published, dict) or not entry.embedded:
        return None
    if not all(isinstance(value, str) for value in entry.published.values()):
        return None
    values = [entry.published.get(key, "0") for key in ("best_cost", "lower_bound")]
    return entry if all(map(DECIMAL.fullmatch, values)) else None


def _read(entry: Entry, path: Path | None, taken: bool) -> Proposed:
    """Check an entry and its file; its id may be ``taken``."""
    valid = not taken and path is not None and entry.path.startswith(f"{entry.track}/")
    limit = min(entry.time_limit_s, LONGEST_S)
    problem = None if path is None else Problem.of(replace(entry, time_limit_s=limit), path)
    result = Proposed(entry.id, entry.track, None)
    why = "its id is taken" if taken else "expected a new file in instances/data, in the folder of its track"
    result.check("entry is valid", YES if valid else NO, why)
    if problem is None or not valid:
        return result
    try:
        problem.summary  # noqa: B018 reads the file
    except InputError as error:
        result.check("file can be read", NO, str(error))
        return result
    result.check("file can be read", YES)
    same = entry.checksum == f"sha256:{problem.content_hash}"
    result.check("file is the entry's", YES if same else NO, f"its checksum is sha256:{problem.content_hash}")
    if same:
        result.problem = problem
    return result


def judge_instance(proposed: Proposed, found: Tables) -> dict[str, Any]:
    """Return a row of `summary` for an instance on which the project's methods have run."""
    solved = tried = 0
    if proposed.problem is not None:
        runs = found.runs.filter((found.runs["instance"] == proposed.id) & (found.runs["kind"] == "solver"))
        costs = [number(text) for text in runs["cost_exact"].to_list() if text is not None]
        solved, tried = len(costs), runs.height
        proposed.check("is solved", YES if solved else NO, "no method of the project finds a feasible solution")
        proposed.check("published bound holds", *_holds(proposed.problem.published, costs))
    return {
        "instance": proposed.id,
        "track": proposed.track,
        "checks": proposed.checks,
        "solved_by": solved,
        "tried_by": tried,
    }


def _holds(published: Mapping[str, Any], costs: Sequence[int | float]) -> tuple[str, str]:
    """Compare the published bound with the costs of runs, each of which refutes a bound above it."""
    if not costs or "lower_bound" not in published:
        return UNTESTED, ""
    least = min(costs)
    if contradicts(number(published["lower_bound"]), least, isinstance(least, int)):
        return NO, f"the lower bound is {published['lower_bound']}, but a run found the cost {least}"
    return YES, ""
