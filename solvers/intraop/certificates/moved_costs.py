"""Certificates: reductions of the instance, messages and prices of memory in what is left, and a tree of cases."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.certificates.few_states import refuting_order
from shardmark.solvers.intraop.certificates.rounded_bound import RoundedBound, rounded_bound
from shardmark.solvers.intraop.cfn.lagrangian import HARDEST, SOFTEST, WARM, Dual
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.model import IMPOSSIBLE, Mask, build
from shardmark.solvers.intraop.network.record import Record
from shardmark.solvers.intraop.network.reduced_problem import Problem
from shardmark.solvers.intraop.network.reduction import reduce
from shardmark.solvers.registry import Run

#: Part of the time for the certificate, if one is asked for: of a search, and of an engine, whose certificate also gets
#: what the engine leaves.
AFTER_SEARCH, AFTER_ENGINE = 0.3, 0.1
#: First softness of the messages of the whole instance if prices are given, and the last, as fractions of the bound per
#: variable: of a bound without cases, and of a proof, in which cases do the rest at less expense.
LONG, SHORT = (WARM, 1e-4), (0.02, 0.003)
#: Cases whose last softness is the gap; for more, that is not enough, and it is `HARDEST` times the gap, at most
#: `LEAST_HARD` (contest-M: 46 cases in 10 s; more than 190 in 25 s if all have the gap).
FIRST_CASES, LEAST_HARD = 20, 1e-5
#: Rounds go on while they leave less than this fraction of the values and cells.
WORTHWHILE = 0.95
#: Cut-off if no solution is known, and the bound reaches 10^17.
NO_CUTOFF = 1 << 200
#: Most cases of a certificate.
MOST_CASES = 100_000


def end_before_proof(run: Run, end: float, share: float) -> float:
    """Time at which a search that would end at ``end`` must stop, as a share of its time may go to a certificate."""
    return end - share * max(0.0, end - time.monotonic()) if run.certify else end


def moved_costs(
    instance: Instance,
    timeline: Timeline,
    multipliers: dict[int, float],
    cutoff: int | None,
    until: float,
) -> dict[str, Any]:
    """Return a proof of kind "costs-moved" of `shardmark.harness.verify.certificates.intraop`.

    ``multipliers``  price of a byte in every step of the timeline that has one; a good start
    ``cutoff``       cost of a known solution: what costs as much or more need not be bounded
    """
    writer = _Writer(instance, timeline, cutoff, until, SHORT)
    return {**writer.root(instance, multipliers), "cases": writer.cases()}


def bound_by_rounds(
    instance: Instance,
    timeline: Timeline,
    multipliers: dict[int, float],
    cutoff: int | None,
    until: float,
    offer: Callable[[int], None],
) -> tuple[dict[str, Any], int]:
    """Return a proof without cases, and the bound that it proves; ``offer`` gets each better bound.

    The parameters are those of `moved_costs`. Whether a proof is asked for makes no difference to the work.
    """
    writer = _Writer(instance, timeline, cutoff, until, LONG, offer)
    return writer.root(instance, multipliers), writer.proven


class _Open(NamedTuple):
    """A case of number ``of`` that is to be divided, ``gap`` below the cut-off as a fraction of it."""

    of: int
    dual: Dual
    left: tuple[Mask, Mask]
    gap: float


class _Writer:
    """Writes steps and cases of a proof."""

    def __init__(
        self,
        instance: Instance,
        timeline: Timeline,
        cutoff: int | None,
        until: float,
        soft: tuple[float, float],
        offer: Callable[[int], None] = lambda bound: None,
    ) -> None:
        if cutoff is None:
            cutoff = IMPOSSIBLE if instance.cheapest_parts() < IMPOSSIBLE else NO_CUTOFF
        self.timeline, self.cutoff, self.until, self._soft, self._offer = timeline, cutoff, until, soft, offer
        self.proven, self._open, self._exact = 0, list[_Open](), False

    def root(self, instance: Instance, multipliers: dict[int, float]) -> dict[str, Any]:
        """Return the proof without cases, and set ``proven`` to what it proves."""
        steps = self._steps(instance, multipliers)
        return {"kind": "costs-moved", "cutoff": self.cutoff, "steps": steps}

    def _steps(self, instance: Instance, multipliers: dict[int, float]) -> list[dict[str, Any]]:
        """Return the steps of the whole instance."""
        record = Record(self.timeline.time)
        none = np.zeros(len(instance.node_cost), dtype=bool)
        model = build(instance, none, tolerant=self.cutoff > IMPOSSIBLE, known=self.cutoff - 1, record=record)
        reduced = reduce(model)
        if reduced is None:
            self.proven = self.cutoff
            return record.steps
        # rounded costs and memory do not show what can replace a value, and entries of 10^17 have other costs
        self._exact = self.timeline.exact and not model.shift and self.cutoff <= IMPOSSIBLE
        if not self._exact:
            problem: Problem | None = Problem(instance, self.timeline, reduced)
        else:
            problem = Problem.reduced(instance, self.timeline, reduced)
        if problem is None or self._bound(-1, problem, multipliers, record, self._soft):
            self.proven = self.cutoff
        return record.steps

    def cases(self) -> list[dict[str, Any]]:
        """Divide what a bound leaves into cases until each reaches the cut-off, or time is up."""
        written = list[dict[str, Any]]()
        while self._open and time.monotonic() < self.until and len(written) < MOST_CASES:
            of, dual, left, gap = self._open.pop()
            model = dual.problem.model
            variable, parts = dual.halves(*left)
            rows = slice(model.start[variable], model.start[variable + 1])
            for values, cells in parts:
                record = Record(self.timeline.time)
                chosen = np.flatnonzero(values[rows]).tolist()
                written.append({"of": of, "variable": variable, "values": chosen, "steps": record.steps})
                inside = dual.problem.restrict(values, cells, record)
                if inside is not None:
                    few = len(written) <= FIRST_CASES
                    soft = min(SHORT[0], SOFTEST * gap), min(SHORT[1], gap) if few else min(LEAST_HARD, HARDEST * gap)
                    self._bound(len(written) - 1, inside, dual.multipliers, record, soft)
        return written

    def _bound(
        self, of: int, problem: Problem, multipliers: dict[int, float], record: Record, soft: tuple[float, float]
    ) -> bool:
        """Write rounds of a problem; True if they reach the cut-off. Remember it if it must be divided.

        ``soft``  first and last softness
        """
        while True:
            dual = Dual(problem, problem.model.forbidden, multipliers)
            dual.climb(self.until, warm=soft[0], hard=soft[1], enough=partial(self._suffices, dual))
            bound = rounded_bound(dual, self.cutoff, exact=self._exact)
            record.steps.append(bound.step)
            if of < 0:
                self._note(dual, bound)
            multipliers = dual.multipliers
            if bound.closed or not bound.exact or time.monotonic() > self.until:
                return bound.closed
            order = refuting_order(problem, bound)
            if order is not None:
                record.steps[-1]["order"] = order
                return True
            further = Record(self.timeline.time)
            fewer = problem.restrict(*bound.left, further)
            if fewer is not None and fewer.allowed >= WORTHWHILE * problem.allowed:
                if (problem.model.sizes > 1).any():
                    gap = 1 - dual.bound / self.cutoff if self.cutoff else 0.0
                    self._open.append(_Open(of, dual, bound.left, gap))
                return False
            record.steps += further.steps
            if fewer is None:
                return True
            problem = fewer

    def _note(self, dual: Dual, bound: RoundedBound) -> None:
        """Offer a bound on the whole instance below the cut-off, by the rounded messages if these are exact."""
        if bound.exact and not bound.closed:
            self.proven = max(self.proven, min(self.cutoff, bound.proven))
            self._offer(self.proven)
        elif not dual.closed:
            self._offer(min(self.cutoff, dual.bound << dual.problem.model.shift))

    def _suffices(self, dual: Dual) -> bool:
        return dual.bound << dual.problem.model.shift >= self.cutoff
