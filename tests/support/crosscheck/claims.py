"""The claims of a method on an instance (bounds, verified costs, that nothing fits), and how it failed."""

from __future__ import annotations

import json
import math
import time
import traceback
import warnings
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

import fuzz
from fuzz import Exact

from crosscheck import reasons, tracks
from shardmark.harness.verify import verify
from shardmark.solvers.registry import Declined, LocalRun, Solver

#: Solutions of a method that the oracle judges, those of least verified cost; the verifier judges all.
JUDGED = 3

#: Tensors up to which the oracle of ``scheduling`` counts links that share bandwidth: its units have as many factors.
MOST_SHARED = 150


@dataclass
class Claims:
    """The claims of one method on one instance; exact numbers, as text in files.

    ``bound``       greatest finite bound, None without one
    ``infinite``    a bound was infinite: nothing is feasible
    ``invalid``     a bound that is no number, or one of a method that declares that it proves none; "" if none
    ``cost``        least verified cost, None without a feasible solution
    ``exact``       the oracle counted that cost, not only the verifier
    ``nothing``     what does not exist, if the method declined for such a reason; see `reasons`
    ``refutes``     claims of that kind that its solutions make false
    ``misjudged``   how the verifier's verdict differs from the oracle's, "" if it does not
    ``seconds``     of CPU that the method took
    """

    bound: Exact | None = None
    infinite: bool = False
    invalid: str = ""
    cost: Exact | None = None
    exact: bool = True
    nothing: str = ""
    refutes: list[str] = field(default_factory=list)
    declined: str = ""
    failed: str = ""
    misjudged: str = ""
    solutions: int = 0
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """Return the claims as plain JSON, without what is as usual."""
        usual = asdict(Claims())
        plain = {key: value for key, value in asdict(self).items() if value != usual[key]}
        return plain | {key: str(plain[key]) for key in ("bound", "cost") if key in plain}

    @classmethod
    def of(cls, document: dict[str, Any]) -> Claims:
        """Return the claims of a document."""
        numbers = {key: _exact(document[key]) for key in ("bound", "cost") if key in document}
        return cls(**{**document, **numbers})


def _exact(text: str) -> Exact:
    return Fraction(text) if "/" in text else int(text)


def claims(method: Solver, instance: Any, seconds: float, seed: int) -> tuple[Claims, Any]:
    """Run a method on an instance; return its claims and its best solution, None without a feasible one."""
    run, found, answer = LocalRun(seed=seed, timeout=seconds, memory=1024.0), Claims(), None
    begun = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answer = method.function(instance, run, **method.params)
    except Declined as declined:
        found.declined = str(declined)
        found.nothing = reasons.claimed(found.declined)
    except Exception:
        found.failed = traceback.format_exc(limit=-5)
    found.seconds = round(time.process_time() - begun, 3)
    _take_bounds(found, run.bounds, method)
    return found, _judge(found, instance, run.solutions if answer is None else [*run.solutions, answer])


def _take_bounds(found: Claims, bounds: list[float], method: Solver) -> None:
    finite = [Fraction(bound) for bound in bounds if math.isfinite(bound)]
    found.bound = max(finite, default=None)
    found.infinite = any(bound == math.inf for bound in bounds)
    if any(math.isnan(bound) for bound in bounds):
        found.invalid = "a bound that is NaN"
    elif bounds and not method.proves_bounds:
        found.invalid = f"the bound {bounds[0]!r}, though it declares that it proves none"


def _judge(found: Claims, instance: Any, solutions: list[Any]) -> Any:
    """Take the least cost of the solutions; return the solution, None if none is feasible."""
    verified = list[tuple[Any, int, Any]]()
    plain = {json.dumps(solution, default=lambda value: value.tolist()): None for solution in solutions}
    for number, text in enumerate(plain):
        verdict = verify(instance, json.loads(text))
        if verdict.feasible:
            verified.append((verdict.cost, -number, json.loads(text)))
    found.solutions = len(plain)
    best = None
    for cost, _, solution in sorted(verified, key=lambda entry: entry[:2])[:JUDGED]:
        exact = _by_oracle(found, instance, cost, solution)
        known = Fraction(cost) if exact is None else exact
        if found.cost is None or known < found.cost:
            found.cost, found.exact, best = known, exact is not None, solution
        found.refutes = sorted({*found.refutes, *reasons.refuted(instance, solution)})
    return best


def _by_oracle(found: Claims, instance: Any, cost: Any, solution: Any) -> Exact | None:
    """Return the exact cost of a solution, None if the oracle cannot count it; note a verdict that differs."""
    if instance.track == "scheduling" and instance.links == "share" and instance.edges > MOST_SHARED:
        return None
    feasible, exact = tracks.judge(instance.track, instance, solution)
    if not feasible or exact is None or not fuzz.same(cost, exact):
        found.misjudged = (
            f"the verifier says {cost!r}, the oracle {'' if feasible else 'infeasible, '}{fuzz.shown(exact)}"
        )
    return exact if feasible else None
