"""The records that a branch proposes: lines of the history and solutions, verified by the referee."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardmark.cli.submission.changes import CERTIFICATE, HISTORY, SOLUTION, Changes, Left, take
from shardmark.cli.submission.summary import LARGEST
from shardmark.harness.campaign.cpus import usable_cpus
from shardmark.harness.campaign.discover import SolverInfo
from shardmark.harness.campaign.jobs import Job, perform
from shardmark.harness.campaign.problems import Problem
from shardmark.harness.records import certificates, solutions
from shardmark.harness.records.best import BestKnown
from shardmark.harness.records.history import FILE_NAME, FOLDER, Improvement, locked, read
from shardmark.harness.records.verification import ABSENT, VERIFIED, verify_record
from shardmark.harness.results import claims
from shardmark.harness.results.claims import contradicts
from shardmark.harness.sandbox.backends.choice import Backend
from shardmark.harness.sandbox.contract import DEFAULT_MEMORY_MIB, Limits
from shardmark.instances import InputError, catalog
from shardmark.instances.files.jsonfile import decode, parse_json

RERUN_S = 60.0  # time limit of a run that repeats a bound, at most
ALL_RERUNS_S = 180.0  # seconds after which no further bound is repeated


@dataclass
class Lines:
    """The proposed records: ``claims`` has a row per line as in `summary`, ``details`` what is wrong or unproven."""

    claims: list[dict[str, Any]] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)
    details: list[str] = field(default_factory=list)


def examine_records(found: Changes, scratch: Path, methods: Sequence[SolverInfo], backend: Backend) -> Lines:
    """Verify the records that a branch adds; ``methods`` repeat the bounds.

    The referee computes each cost again from its solution. A bound is confirmed if its certificate proves it, or if the
    method that is named finds it again within its limits and within `RERUN_S`; else it stays a claim, unless a known
    cost refutes it.
    """
    result = Lines()
    history, added = found.of(HISTORY), [*found.of(SOLUTION), *found.of(CERTIFICATE)]
    lines = history[0].content if history else b""
    if any(map(_withdraws, lines.split(b"\n"))):
        result.left.append(Left(HISTORY.encode(), "withdraws"))
        lines = b""
    folder = scratch / FOLDER.name
    folder.mkdir()
    (folder / FILE_NAME).write_bytes((FOLDER / FILE_NAME).read_bytes() + lines)
    for file in added:
        take(file, scratch)
    try:
        with locked(folder):
            before, after = read(FOLDER), read(folder)
    except InputError as error:
        result.left.append(Left(HISTORY.encode(), "malformed"))
        result.details.append(str(error))
        return result
    new = [line for name, all_lines in after.items() for line in all_lines[len(before.get(name, ())) :]]
    if any(not abs(line.number) <= LARGEST for line in new):
        result.left.append(Left(HISTORY.encode(), "malformed"))
        return result
    named = {f"{FOLDER.name}/{name}" for line in new if (name := _file(line))}
    result.left += [Left(file.path.encode(), "outside") for file in added if file.path not in named]
    best = [BestKnown(catalog.find(name), tuple(all_lines)) for name, all_lines in after.items()]
    standing = [line for record in best for line in (record.cost, *record.standing) if line]
    needed = {f"{FOLDER.name}/{name}" for line in standing if (name := _file(line))}
    result.left += [Left(path.encode(), "changes") for path in found.deleted if path in needed]
    check = _Check(folder, before, after, methods, backend)
    for line in new:
        outcome, detail = check.judge(line)
        result.claims.append({**_claim(line), "found": None, "result": outcome})
        if detail:
            result.details.append(f"{line.kind} {line.value} of {line.instance}: {outcome}: {detail}")
    return result


def _withdraws(line: bytes) -> bool:
    """Return True for a withdrawal, however its JSON is written; lines that are none are for `read` to refuse."""
    try:
        document = parse_json(decode(line, HISTORY), HISTORY)
    except InputError:
        return False
    return isinstance(document, dict) and document.get("kind") == "withdrawn"


def _file(line: Improvement) -> str:
    """Return the path within the records of the solution of a cost or the certificate of a bound; "" if it has none."""
    if line.kind == "cost":
        return solutions.name_of(line)
    return certificates.name_of(line) if line.certificate else ""


def _claim(line: Improvement) -> dict[str, Any]:
    return {"instance": line.instance, "kind": line.kind, "claimed": line.number}


class _Check:
    """Judges lines of the history, in ``folder`` with their solutions; ``before`` and ``after`` they were added."""

    def __init__(
        self,
        folder: Path,
        before: Mapping[str, Sequence[Improvement]],
        after: Mapping[str, Sequence[Improvement]],
        methods: Sequence[SolverInfo],
        backend: Backend,
    ) -> None:
        self.folder, self.before, self.after = folder, before, after
        self.methods = {(info.track, info.name): info for info in methods if not info.error}
        self.backend = backend
        self.until = time.monotonic() + ALL_RERUNS_S

    def judge(self, line: Improvement) -> tuple[str, str]:
        """Return the result on a line, a key of `summary.CLAIMS`, and a sentence on what is wrong, if anything is."""
        entry = catalog.find(line.instance)
        verified = verify_record(self.folder, BestKnown(entry, (line,)))
        if verified.result == ABSENT:
            return "absent", ""
        if verified.result != VERIFIED:
            return "wrong", verified.reason
        known = BestKnown(entry, tuple(self.before.get(line.instance, ())))
        standing = known.cost if line.kind == "cost" else known.bound
        if standing is not None and not self._improves(line, standing) and not self._certifies(line, known):
            return "no improvement", f"the record is {standing.value}"
        if line.kind == "cost":
            return "confirmed", ""
        cost = BestKnown(entry, tuple(self.after[line.instance])).cost
        if cost and contradicts(line.number, cost.number, isinstance(cost.number, int)):
            return "wrong", f"it is above the verified cost {cost.value}"
        return ("confirmed", "") if line.certificate else self._repeat(line, entry)

    @staticmethod
    def _certifies(line: Improvement, known: BestKnown) -> bool:
        """Return True for a bound with a certificate that is as good as the record's, which has none."""
        if not line.certificate or known.bound is None or known.bound.certificate:
            return False
        settles = known.cost is not None and claims.optimal(known.cost.number, line.number)
        return bool(settles) or line.number >= known.bound.number

    @staticmethod
    def _improves(line: Improvement, standing: Improvement) -> bool:
        """Return True if a line is better, beyond the tolerance for floats."""
        integral = isinstance(line.number, int)
        low, high = (line, standing) if line.kind == "cost" else (standing, line)
        return contradicts(high.number, low.number, integral)

    def _repeat(self, line: Improvement, entry: catalog.Entry) -> tuple[str, str]:
        """Run the method of a bound again."""
        info = self.methods.get((entry.track, line.method))
        if info is None or time.monotonic() > self.until:
            return "claimed", "" if info else "the project has no such method"
        cores = min(max(line.cores, 1), len(usable_cpus()))
        limits = Limits(min(line.timeout_s, RERUN_S), min(line.memory_mib, DEFAULT_MEMORY_MIB), cores)
        problem = Problem.of(entry, catalog.locate(entry))
        with self.backend.supervisor() as supervisor:
            row = perform(Job(info, problem, line.seed, limits), supervisor, usable_cpus()[: limits.cores])
        problem.forget()
        found = row.lower_bound
        if found is None or contradicts(line.number, found, isinstance(line.number, int)):
            return "claimed", f"{info.name} finds {found} within {limits.timeout_s:g} s ({row.status})"
        return "confirmed", ""
