"""Instances of medium size: too many solutions to try all, few enough that another exact method mostly ends in time.

The oracles' own numbers fill them, extreme ones included. A `Duel` holds every bound of one method against the least
cost that another method finds: of each solution the oracle counts the cost exactly. The cost is optimal if the other
method proves it, else an upper limit all the same, so a bound above it is false either way.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import pytest
from fuzz import Exact, methods, shown

from instances import track_module
from solvers.pipeline.programs.stage_search import StageSearch
from solvers.registry import Declined, LocalRun, Solver

#: Relative difference up to which the other method's bound proves its cost: engines have tolerances.
PROVEN = Fraction(1, 10**5)


def pretend(monkeypatch: pytest.MonkeyPatch, factor: float) -> None:
    """Let bounds of ``pipeline`` believe that the best known partition costs so many times as much.

    None is proved above what a search knows, which is mostly the optimum.
    """
    below: Callable[[StageSearch, float], int] = StageSearch.units_below
    unpatched = getattr(below, "unpatched", below)

    def units_below(self: StageSearch, cost: float) -> int:
        found: int = unpatched(self, cost * factor)
        return found

    units_below.unpatched = unpatched  # type: ignore[attr-defined]
    monkeypatch.setattr(StageSearch, "units_below", units_below)


@dataclass(frozen=True)
class Duel:
    """A bound against another exact method.

    ``draw(rng)``              an instance
    ``judge``                  (feasible, exact cost) of a solution, by an oracle
    ``rivals``                 names of the exact methods that look for solutions; all of them run
    ``helper``                 name of a method that looks for solutions too, and whose bounds do not count
    ``bounds(instance, rng)``  lower bounds; infinite if it is proved that nothing is feasible
    ``seconds``                time limit of a rival
    """

    track: str
    draw: Callable[[random.Random], Any]
    judge: Callable[[Any, Any], tuple[bool, Exact | None]]
    rivals: tuple[str, ...]
    bounds: Callable[[Any, random.Random], Iterator[float]]
    helper: str | None = None
    seconds: float = 1.0

    def instance(self, seed: int) -> Any:
        """Return the instance of a seed."""
        return self.draw(random.Random(f"medium {self.track} {seed}"))

    def on(self, seeds: range) -> Counter[str]:
        """Fail with the first false bound; return how many draws a rival proved, improved on, or left open."""
        found = Counter[str]()
        for seed in seeds:
            instance = self.instance(seed)
            cost, proved = self._least(instance, seed)
            bound = max(map(_exact, self.bounds(instance, random.Random(f"bound {seed}"))), default=0)
            if cost is not None and bound > cost:
                document = json.dumps(track_module(self.track).to_document(instance))
                pytest.fail(f"{self.track}, seed {seed}: {shown(bound)} above {shown(cost)}\n{document}", pytrace=False)
            found["draws"] += 1
            found["proven"] += proved
            found["found"] += cost is not None
            found["refuted"] += bound == math.inf
            found["tight"] += cost is not None and bound >= cost * (1 - PROVEN)
        return found

    def _least(self, instance: Any, seed: int) -> tuple[Exact | None, bool]:
        """Return the least cost that the rivals find, None without a solution, and whether one of them proves it."""
        cost, bounds, closed = None, [Fraction(0)], False
        for name in filter(None, [*self.rivals, self.helper]):
            rival, run = _rivals(self.track)[name], LocalRun(seed=seed, timeout=self.seconds)
            solutions = run.solutions
            try:
                answer = rival.function(instance, run, **rival.params)
                solutions = solutions if answer is None else [*solutions, answer]
            except Declined as declined:
                closed |= str(declined).startswith(("no schedule fits", "no placement fits", "time step "))
            bounds += map(Fraction, run.bounds if name != self.helper else [])
            for solution in solutions:
                plain = json.loads(json.dumps(solution, default=lambda value: value.tolist()))
                feasible, found = self.judge(instance, plain)
                if feasible and found is not None and (cost is None or found < cost):
                    cost = found
        return cost, closed if cost is None else max(bounds) >= cost * (1 - PROVEN)


@cache
def _rivals(track: str) -> dict[str, Solver]:
    return methods(track)


def _exact(bound: float) -> Exact | float:
    return Fraction(bound) if math.isfinite(bound) else bound
