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
from shardmark.harness.records import history, solutions
from shardmark.harness.records.best import BestKnown, unlocked
from shardmark.harness.records.history import Improvement
from shardmark.harness.results.claims import TOLERANCE, contradicts, optimal
from shardmark.harness.results.database import Store, storable
from shardmark.harness.results.records import decimal, number
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

    A cost is taken if the referee verifies its solution now, a bound if no known cost refutes it.
    Bounds of a record that is proven optimal stay as they are.
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
        for improvement, solution in taken:
            if improvement.kind == "cost":
                solutions.write(folder, improvement, solution)
        if taken:
            history.append(folder, [improvement for improvement, _ in taken])
            solutions.keep_only(folder, (record.cost for record in unlocked(folder) if record.cost))
    return changes


def _runs(store: Store) -> Mapping[str, Sequence[Run]]:
    """Return the runs with a cost or a bound, by instance."""
    names, batches = store.batches("runs", without=("log",))
    found: dict[str, list[Run]] = defaultdict(list)
    for row in chain.from_iterable(batches):
        run = dict(zip(names, row, strict=True))
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
        self.taken: list[tuple[Improvement, Any]] = []

    def changes(self) -> Iterator[Change]:
        """Yield improvements on the record, best first, until one is taken; ``taken`` then holds it."""
        costs = [run for run in self.runs if run["cost"] is not None and self._is_less(number(run["cost"]))]
        bounds = [run for run in self.runs if run["lower_bound"] is not None and self._is_greater(run["lower_bound"])]
        if not costs and not bounds:
            return
        first = ("cost", costs[0]) if costs else ("bound", bounds[0])
        path = catalog.at_hand(self.record.entry)
        if path is None:
            yield self._change(*first, "this machine does not have the instance's file")
            return
        problem = Problem.of(self.record.entry, path)
        if self.record.checksum not in ("", problem.checksum):
            yield self._change(*first, f"the record has expired: remove its lines from {history.FILE_NAME} first")
            return
        costs, bounds = ([run for run in runs if run["checksum"] == problem.checksum] for runs in (costs, bounds))
        if not costs and not bounds:
            yield self._change(*first, "the run used a different file from the catalog's")
            return
        yield from self._costs(costs, problem)
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
        if optimal(self.cost, None if self.record.bound is None else self.record.bound.number):
            return
        for run in sorted(runs, key=lambda run: (-Fraction(run["lower_bound"]), run["started"], run["id"])):
            if lower := self.record.refuted(number(run["lower_bound"]), self.cost):
                yield self._change("bound", run, f"it is above {lower}")
            elif run["status"] == "contradiction":
                yield self._change("bound", run, "its run contradicts itself")
            else:
                yield self._change("bound", run)
                self._take("bound", run["lower_bound"], run)
                return

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

    def _take(self, kind: str, value: str, run: Run, solution: Any = None) -> None:
        improvement = Improvement(
            instance=self.record.entry.id,
            checksum=run["checksum"],
            kind=kind,
            value=value,
            solution=solutions.digest(solution) if kind == "cost" else "",
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
        )
        self.taken.append((improvement, solution))
