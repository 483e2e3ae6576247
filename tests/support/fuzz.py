"""The frame of the fuzz tests: small drawn instances, every solver and bound of a track, an exact oracle to judge them.

A track has an oracle, ``oracles/oracle_TRACK.py``, which shares no code with solvers or verifier, and a test:

    ATTACK = Attack("pipeline", draw, draw_solution, judge, optimum, every={"annealing": 100})

    @blocks
    def test_every_claim_holds(seeds: range) -> None:
        ATTACK.on(seeds)

A block is a range of seeds: one block in the ordinary test run, as many as ``SHARDMARK_DRAWS`` asks for under
``make fuzz``. For each seed an instance is drawn, and every solver and bound method of the track runs on it in this
process, without a referee. A failure is an exception (under pytest a warning is one), a bound above the exact optimum
or from a solver that declares that it proves none, a verdict of the verifier that is not the oracle's, or a false
reason to decline. The project calls a verified cost optimal if a lower bound meets it, so with true bounds and true
costs no "optimal" is false. A failure is printed with its seed and the instance as JSON, to be pasted into a file;
`Attack.instance` draws it again.
"""

from __future__ import annotations

import json
import math
import os
import random
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from effort import draws

from shardmark.harness.results.claims import TOLERANCE
from shardmark.harness.verify import verify
from shardmark.instances import track_module
from shardmark.solvers.registry import Declined, LocalRun, Solver, load_file, solver_files

#: Instances per track.
DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0")) or draws(8, 8, 15)
#: Seeds in a block, which is one test.
BLOCK = 50

#: The least positive float64.
LEAST = Fraction(math.ulp(0.0))

Exact = int | Fraction

_of_seeds = pytest.mark.parametrize(
    "seeds",
    [range(first, min(first + BLOCK, DRAWS)) for first in range(0, DRAWS, BLOCK)],
    ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}",
)
_patient = pytest.mark.timeout(3600)  # seconds, enough for any busy machine


def blocks(test: Callable[..., None]) -> Callable[..., None]:
    """Decorates a test of ``seeds``, which is called once per block."""
    decorated: Callable[..., None] = _patient(_of_seeds(test))
    return decorated


def numbers(rng: random.Random) -> Callable[[], float]:
    """Return a source of numbers from 0 up: integers, decimals, ties up to an ulp, tiny, huge, or a mix."""
    scale = 10 ** rng.uniform(-300, 300)

    def neighbour() -> float:
        return scale * (1 + rng.randint(-2, 2) * 2.0**-52) * rng.choice([1, 1, 2, 0.5])

    kinds: list[Callable[[], float]] = [
        lambda: rng.randint(0, 9),
        lambda: rng.choice([0, 0.1, 0.2, 0.3, 0.7, 1.1]),
        lambda: rng.uniform(0, 1),
        lambda: rng.choice([0, 0, 1, 3.3, 1e16]),
        lambda: 10 ** rng.uniform(-300, 300),
        lambda: 10 ** rng.uniform(-12, 12),
        lambda: rng.choice([0, 5e-324, 1e-323, 1e-310, 2.3e-308]),
        neighbour,
        lambda: rng.choice([0, scale, neighbour()]),
    ]
    if rng.random() < 0.3:
        return lambda: rng.choice(kinds)()
    return rng.choice(kinds)


def methods(track: str) -> dict[str, Solver]:
    """Return all solvers and bound methods of a track, by name."""
    files = [file for file in solver_files() if track in file.parts[-3:-1]]
    return {method.name: method for file in files for method in load_file(file)}


def attempt(method: Callable[..., Any], instance: Any, **limits: Any) -> tuple[LocalRun, str | None]:
    """Return the run of a method, and why it declined the instance, None if it did not."""
    run, reason = LocalRun(**{"timeout": 60.0, **limits}), None
    try:
        method(instance, run)
    except Declined as declined:
        reason = str(declined)
    return run, reason


@dataclass(frozen=True)
class Attack:
    """A track as the frame needs it.

    ``draw(rng)``                     an instance
    ``draw_solution(rng, instance)``  a well-formed solution, feasible or not, to test the verifier
    ``judge(instance, solution)``     (feasible, exact cost) of a solution; None if it has no cost
    ``optimum(instance)``             the exact optimum; None if no solution is feasible
    ``every``                         a solver named here runs on one seed in this number; all others on every seed
    ``settings``                      solver parameters other than the defaults
    ``seconds``                       time limit of a run
    ``false_reason``                  ``(instance, optimum, reason)``: True if a solver declined with a false reason
    """

    track: str
    draw: Callable[[random.Random], Any]
    draw_solution: Callable[[random.Random, Any], Any]
    judge: Callable[[Any, Any], tuple[bool, Exact | None]]
    optimum: Callable[[Any], Exact | None]
    every: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seconds: float = 2.0
    false_reason: Callable[[Any, Exact | None, str], bool] = lambda instance, optimum, reason: False

    def instance(self, seed: int) -> Any:
        """Return the instance of a seed."""
        return self.draw(random.Random(f"{self.track} {seed}"))

    def on(self, seeds: range) -> None:
        """Fail with the first failure of each solver on the instances of some seeds."""
        solvers, found = list(methods(self.track).values()), dict[str, str]()
        for seed in seeds:
            instance = self.instance(seed)
            for name, failure in self._on(instance, seed, solvers):
                document = json.dumps(track_module(self.track).to_document(instance))
                found.setdefault(name, f"{self.track}, seed {seed}, {name}: {failure}\n{document}")
        if found:
            pytest.fail("\n\n".join(found.values()), pytrace=False)

    def _on(self, instance: Any, seed: int, solvers: list[Solver]) -> Iterator[tuple[str, str]]:
        """Yield failures on an instance, each with the name of the solver or the verifier."""
        optimum = self.optimum(instance)
        solution = self.draw_solution(random.Random(f"{self.track} solution {seed}"), instance)
        if failure := self._misjudged(instance, solution, optimum):
            yield "verifier", failure
        for solver in solvers:
            due = (seed + len(solver.name)) % self.every.get(solver.name, 1) == 0
            if due and (failure := self._run(solver, instance, seed, optimum)):
                yield solver.name, failure

    def _run(self, solver: Solver, instance: Any, seed: int, optimum: Exact | None) -> str:
        """Run a solver on an instance and return its failure, "" if there is none."""
        run = LocalRun(seed=seed, timeout=self.seconds)
        try:
            answer = solver.function(instance, run, **{**solver.params, **self.settings.get(solver.name, {})})
        except Declined as declined:
            answer = None
            if self.false_reason(instance, optimum, str(declined)):
                return f"declines for a reason that is false, {str(declined)!r}; the optimum is {shown(optimum)}"
        except Exception:
            return traceback.format_exc(limit=-5)
        if run.bounds and not solver.proves_bounds:
            return f"reports the bound {run.bounds[0]!r}, but declares that it proves none"
        for bound in run.bounds:
            if not math.isfinite(bound):
                return f"bound {bound}"
            if optimum is not None and Fraction(bound) > optimum:
                return f"bound {bound!r} above the optimum {shown(optimum)}"
        solutions = run.solutions if answer is None else [*run.solutions, answer]
        return next(filter(None, (self._misjudged(instance, s, optimum) for s in solutions)), "")

    def _misjudged(self, instance: Any, solution: Any, optimum: Exact | None) -> str:
        """Return how the verifier's verdict on a solution differs from the oracle's, "" if it does not."""
        solution = json.loads(json.dumps(solution, default=lambda value: value.tolist()))  # as it reaches the referee
        feasible, cost = self.judge(instance, solution)
        try:
            verdict = verify(instance, solution)
        except Exception:
            return f"of the solution {json.dumps(solution)}: {traceback.format_exc(limit=-5)}"
        if verdict.feasible != feasible or not same(verdict.cost, cost):
            expected = f"{'feasible' if feasible else 'infeasible'}, {shown(cost)}"
            return f"expected {expected} of the solution {json.dumps(solution)}, found {verdict}"
        if feasible and (optimum is None or cost is None or cost < optimum):
            return f"the oracle contradicts itself: {shown(cost)} of {json.dumps(solution)}, optimum {shown(optimum)}"
        return ""


def same(found: float | None, exact: Exact | None) -> bool:
    """Return True if a verified cost is the exact one: a float may differ by the tolerance or half an ulp."""
    if found is None or exact is None or isinstance(exact, int):
        return found == exact
    return math.isfinite(found) and abs(Fraction(found) - exact) <= max(TOLERANCE * exact, LEAST / 2)


def shown(value: Exact | None) -> str:
    """Return an exact number as text: an integer as it is, a fraction to 25 digits."""
    return f"{Decimal(value.numerator) / value.denominator:.25g}" if isinstance(value, Fraction) else str(value)
