"""Update of the records: takes what is better from a results folder, after the referee verified it again."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from pathlib import Path
from typing import Any

from shardmark.harness.campaign.problems import Problem
from shardmark.harness.records import certificates, files, history, solutions
from shardmark.harness.records.best import BestKnown, unlocked
from shardmark.harness.records.history import Improvement
from shardmark.harness.results.claims import TOLERANCE, contradicts, optimal
from shardmark.harness.results.database import Store, storable
from shardmark.harness.results.records import LARGEST_CERTIFICATE, decimal, number
from shardmark.harness.verify import verify
from shardmark.instances import catalog
from shardmark.instances.files.jsonfile import require_writable

Run = Mapping[str, Any]
VERSION_DIGITS = 12  # of the hash of a method's code


@dataclass(frozen=True)
class Change:
    """A better cost or bound, taken or refused: ``reason`` is empty if it was taken, else a sentence.

    ``before`` is the value of the record so far, None if there is none.
    """

    instance: str
    kind: str
    value: str
    before: str | None
    method: str
    reason: str = ""


def update(store: Store, folder: Path, by: str) -> list[Change]:
    """Take every better cost and bound of a results folder into the records, all in one step; return what was found.

    A cost is taken if the referee verifies its solution now, a bound if no known cost refutes it. A bound whose
    certificate is checked now is also taken if the record's bound, or its proof of optimality, has none. Other bounds
    of a record that is proven optimal stay as they are.
    """
    runs, machines = _runs(store), _machines(store)
    changes: list[Change] = []
    taken: list[tuple[Improvement, Any]] = []
    with history.locked(folder, write=True):
        require_writable(folder / history.FILE_NAME)
        for record in unlocked(folder):
            search = _Search(record, runs.get(record.entry.id, ()), store, machines, storable(by))
            changes += search.changes()
            taken += search.taken
        for improvement, content in taken:
            if improvement.kind == "cost":
                files.write(folder / solutions.name_of(improvement), content)
            elif improvement.certificate:
                files.write(folder / certificates.name_of(improvement), content)
        if taken:
            history.append(folder, [improvement for improvement, _ in taken])
            now = unlocked(folder)
            solutions.keep_only(folder, (record.cost for record in now if record.cost))
            proofs = (line for record in now for line in record.standing if line.certificate)
            certificates.keep_only(folder, proofs)
    return changes


def _runs(store: Store) -> Mapping[str, Sequence[Run]]:
    """Return the runs with a cost or a bound, by instance; ``proven`` and ``bytes`` are those of a certificate."""
    names, rows = store.rows("certificates")
    sent = {run["run"]: run for run in (dict(zip(names, row, strict=True)) for row in rows)}
    names, batches = store.batches("runs", without=("log",))
    found: dict[str, list[Run]] = defaultdict(list)
    for row in chain.from_iterable(batches):
        run = dict(zip(names, row, strict=True))
        certificate = sent.get(run["id"], {"proven": None, "bytes": 0})
        run |= {name: certificate[name] for name in ("proven", "bytes")}
        if run["cost"] is not None or run["lower_bound"] is not None:
            found[run["instance"]].append(run)
    return found


def _machines(store: Store) -> Mapping[tuple[int, str], str]:
    """Return the class of each machine: processor, number of CPUs and memory."""
    names, rows = store.rows("hosts")
    hosts = (dict(zip(names, row, strict=True)) for row in rows)
    return {(host["campaign"], host["name"]): machine_class(json.loads(host["facts"])) for host in hosts}


def machine_class(facts: Mapping[str, Any]) -> str:
    """Describe a machine in words, from the facts of `shardmark.harness.campaign.host`."""
    memory = facts.get("memory_mib")
    gib = f"{round(memory / 1024)} GiB" if isinstance(memory, int | float) else "unknown memory"
    return f"{facts.get('cpu') or 'unknown processor'}, {facts.get('cores') or '?'} CPUs, {gib}"


class _Search:
    """The search for a better cost and a better bound of one instance among its runs."""

    def __init__(
        self,
        record: BestKnown,
        runs: Sequence[Run],
        store: Store,
        machines: Mapping[tuple[int, str], str],
        by: str,
    ) -> None:
        self.record, self.runs, self.store, self.machines, self.by = record, runs, store, machines, by
        self.cost = None if record.cost is None else record.cost.number
        self.proven: int | float | None = None  # of a certificate that was taken
        self.taken: list[tuple[Improvement, Any]] = []

    def changes(self) -> Iterator[Change]:
        """Yield improvements on the record, best first, until one is taken; ``taken`` then holds it."""
        costs = [run for run in self.runs if run["cost"] is not None and self._is_less(number(run["cost"]))]
        bounds = [run for run in self.runs if run["lower_bound"] is not None and self._is_greater(run["lower_bound"])]
        proofs = [run for run in self.runs if run["proven"] and (costs or self._supports(number(run["proven"])))]
        if not costs and not bounds and not proofs:
            return
        first = ("cost", costs[0]) if costs else ("bound", (bounds or proofs)[0])
        path = catalog.at_hand(self.record.entry)
        if path is None:
            yield self._change(*first, "this machine does not have the instance's file")
            return
        problem = Problem.of(self.record.entry, path)
        if self.record.checksum not in ("", problem.checksum):
            yield self._change(*first, f"the record has expired: remove its lines from {history.FILE_NAME} first")
            return
        costs, bounds, proofs = (
            [run for run in runs if run["checksum"] == problem.checksum] for runs in (costs, bounds, proofs)
        )
        if not costs and not bounds and not proofs:
            yield self._change(*first, "the run used a different file from the catalog's")
            return
        yield from self._costs(costs, problem)
        yield from self._proofs(proofs, problem)
        yield from self._bounds(bounds)
        problem.forget()

    def _costs(self, runs: Sequence[Run], problem: Problem) -> Iterator[Change]:
        for run in sorted(runs, key=lambda run: (Fraction(run["cost"]), run["started"], run["id"])):
            solution = self.store.solution(run["id"])
            verdict = verify(problem.instance, solution)
            if not verdict.feasible or verdict.cost is None:
                yield self._change("cost", run, f"its solution is not feasible: {verdict.violations[0]}")
            elif not self._is_less(verdict.cost):
                yield self._change("cost", run, f"its solution costs {verdict.cost!r}")
            elif self._refuted_by(verdict.cost):
                bound = self.record.bound
                words = f"{bound.value} of {bound.method}" if bound else ""
                yield self._change("cost", run, f"it refutes the recorded bound {words}: remove that line first")
                self.cost = verdict.cost  # no bound above it is taken
                return
            else:
                text = decimal(verdict.cost) or ""
                yield self._change("cost", run, value=text)
                self._take("cost", text, run, solution)
                self.cost = verdict.cost
                return

    def _refuted_by(self, cost: int | float) -> bool:
        bound = self.record.bound
        return bound is not None and contradicts(bound.number, cost, isinstance(cost, int))

    def _bounds(self, runs: Sequence[Run]) -> Iterator[Change]:
        known = [line.number for line in self.record.standing] + [self.proven] * (self.proven is not None)
        if any(optimal(self.cost, bound) for bound in known):
            return
        runs = [run for run in runs if self.proven is None or Fraction(run["lower_bound"]) > self.proven]
        for run in sorted(runs, key=lambda run: (-Fraction(run["lower_bound"]), run["started"], run["id"])):
            if lower := self.record.refuted(number(run["lower_bound"]), self.cost):
                yield self._change("bound", run, f"it is above {lower}")
            elif run["status"] == "contradiction":
                yield self._change("bound", run, "its run contradicts itself")
            else:
                yield self._change("bound", run)
                self._take("bound", run["lower_bound"], run)
                return

    def _proofs(self, runs: Sequence[Run], problem: Problem) -> Iterator[Change]:
        """Take the greatest bound that a certificate is found to prove now, if the record has none as good."""
        for run in sorted(runs, key=lambda run: (-Fraction(run["proven"]), run["bytes"], run["id"])):
            if not self._supports(number(run["proven"])):
                continue
            document = self.store.certificate(run["id"])
            if document is None:
                words = f"its certificate has {run['bytes']} bytes, and the records keep at most {LARGEST_CERTIFICATE}"
                yield self._change("bound", run, words, run["proven"])
                continue
            found = problem.check_certificate(document).proven_number
            text = decimal(found) or "nothing"
            if found is None or not self._supports(found):
                yield self._change("bound", run, f"its certificate proves {text}", run["proven"])
            elif lower := self.record.refuted(found, self.cost):
                yield self._change("bound", run, f"it is above {lower}", text)
            else:
                yield self._change("bound", run, value=text)
                self._take("bound", text, run, {**document, "bound": found})
                self.proven = found
                return

    def _supports(self, proven: int | float) -> bool:
        """Return True if a checked bound proves the cost optimal, or is the greatest known, and none so far does."""
        certified = [line.number for line in self.record.standing if line.certificate]
        if optimal(self.cost, proven):
            return not any(optimal(self.cost, known) for known in certified)
        stated = [Fraction(line.value) for line in self.record.standing]
        return all(proven >= known for known in stated) and all(proven > known for known in certified)

    def _is_less(self, cost: int | float) -> bool:
        """Return True if a cost is better than the record's: at all for ints, beyond the tolerance for floats."""
        if self.cost is None:
            return True
        slack = 0 if isinstance(cost, int) else TOLERANCE * abs(Fraction(self.cost))
        return Fraction(cost) < Fraction(self.cost) - slack

    def _is_greater(self, text: str) -> bool:
        bound = self.record.bound
        if bound is None:
            return True
        slack = 0 if isinstance(self.cost, int) else TOLERANCE * abs(Fraction(bound.value))
        return Fraction(text) > Fraction(bound.value) + slack

    def _change(self, kind: str, run: Run, reason: str = "", value: str | None = None) -> Change:
        before = self.record.cost if kind == "cost" else self.record.bound
        found = value or run["cost" if kind == "cost" else "lower_bound"]
        known = None if before is None else before.value
        return Change(self.record.entry.id, kind, found, known, run["solver"], reason)

    def _take(self, kind: str, value: str, run: Run, content: Any = None) -> None:
        """Take a line with its ``content``, if any: the solution of a cost, or the certificate of a bound."""
        improvement = Improvement(
            instance=self.record.entry.id,
            checksum=run["checksum"],
            kind=kind,
            value=value,
            solution=files.digest(content) if kind == "cost" else "",
            method=run["solver"],
            version=run["solver_hash"][:VERSION_DIGITS],
            seed=run["seed"],
            timeout_s=run["timeout_s"],
            memory_mib=run["memory_mib"],
            cores=run["cores"],
            wall_s=round(run["wall_s"], 2),
            machine=self.machines.get((run["campaign"], run["host"]), "unknown"),
            date=run["started"][:10],
            by=self.by,
            certificate=files.digest(content) if kind == "bound" and content is not None else "",
        )
        self.taken.append((improvement, content))
