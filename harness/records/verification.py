"""Verification of the records: their instances, solutions, costs, bounds and certificates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from shardmark.harness.campaign.problems import Problem
from shardmark.harness.records import certificates as kept
from shardmark.harness.records import solutions
from shardmark.harness.records.best import BestKnown, chosen, unlocked
from shardmark.harness.records.history import Improvement, locked
from shardmark.harness.results.claims import TOLERANCE
from shardmark.harness.verify import verify
from shardmark.instances import InputError, catalog

VERIFIED, ABSENT, WRONG = "verified", "not at hand", "wrong"


@dataclass(frozen=True)
class Finding:
    """The result on the record of an instance: `VERIFIED`, `ABSENT` or `WRONG`, and a sentence on the latter."""

    instance: str
    result: str
    reason: str = ""


def verify_records(
    folder: Path,
    track: str | None = None,
    suite: str | None = None,
    ids: Sequence[str] = (),
    *,
    certificates: bool = True,
) -> list[Finding]:
    """Verify the chosen records; if the file of an instance is not at hand, only the numbers of its record.

    Without ``certificates`` these are not checked, only that they are the ones that the history names.
    """
    with locked(folder):
        held = [record for record in chosen(unlocked(folder), track, suite, ids) if record.history]
        return [verify_record(folder, record, certificates=certificates) for record in held]


def verify_record(folder: Path, record: BestKnown, *, certificates: bool = True) -> Finding:
    """Verify one record, whose files are in a folder of records; see `verify_records`."""
    name = record.entry.id
    try:
        cost = None if record.cost is None else record.cost.number
        if record.bound and (lower := record.refuted(record.bound.number, cost)):
            return Finding(name, WRONG, f"its bound {record.bound.value} of {record.bound.method} is above {lower}")
        path = catalog.at_hand(record.entry)
        if path is None:
            return Finding(name, ABSENT)
        reason = _reason(folder, record, Problem.of(record.entry, path), certificates)
    except InputError as error:
        reason = str(error)
    return Finding(name, WRONG if reason else VERIFIED, reason)


def _reason(folder: Path, record: BestKnown, problem: Problem, checking: bool) -> str:
    """Return what is wrong with a record first, as a sentence; empty if it is right."""
    instance = problem.instance
    if problem.checksum != record.checksum:
        return f"expired: it is for the checksum {record.checksum}, but the catalog's file has {problem.checksum}"
    for line in record.standing:
        if line.certificate and (wrong := _unproven(folder, line, problem, checking)):
            return f"the certificate of its bound {line.value} of {line.method}: {wrong}"
    if record.cost is None:
        return ""
    verdict = verify(instance, solutions.read(folder, record.cost, instance))
    if not verdict.feasible or verdict.cost is None:
        return f"its solution is not feasible: {verdict.violations[0]}"
    cost = record.cost.number
    slack = 0 if isinstance(verdict.cost, int) else float(TOLERANCE) * abs(cost)
    if abs(verdict.cost - cost) > slack:
        return f"its solution costs {verdict.cost!r}, not {record.cost.value}"
    return ""


def _unproven(folder: Path, line: Improvement, problem: Problem, checking: bool) -> str:
    """Return why the certificate of a line does not prove its bound, as a sentence; empty if it does."""
    document = kept.read(folder, line)
    if not checking:
        return ""
    found = problem.check_certificate(document)
    if found.proven is None:
        return found.reason
    if found.proven < Fraction(line.number):
        return f"it proves only {found.proven_number!r}"
    return ""
