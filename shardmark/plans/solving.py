"""Runs the methods of a plan one after another, until a bound meets the cost or the time is up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from shardmark import api
from shardmark.harness.results.claims import contradicts, gap
from shardmark.harness.results.grades import CLAIMED, Evidence, grade
from shardmark.instances import InputError
from shardmark.outcomes import Cost
from shardmark.runs import series

#: A method has at least this long, in seconds: starting a run takes half of it on a busy machine.
LEAST_S = 2.0
#: Until there is a split, a method has at least this long, in seconds: nothing is gained by giving up sooner.
FIRST_S = 3.0
#: A cost within this relative distance of the bound is as good as optimal for an engineer; the search ends.
CLOSE = 1e-4

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Step:
    """A method to run: its name, its kind ("solver" or "bound"), and its share of the time left."""

    method: str
    kind: str
    share: float


@dataclass(frozen=True)
class Certified:
    """A verified solution, its cost, and the greatest lower bound that a method proved, with its name and its grade."""

    solution: Any
    cost: Cost
    lower_bound: Cost
    bound_from: str
    grade: str = CLAIMED


@series()
def certify(
    instance: Any,
    steps: Sequence[Step],
    timeout: float,
    tell: Tell,
    *,
    cores: int,
    seed: int,
    unit_us: float = 1.0,
    known: tuple[Any, Cost] | None = None,
    certificates: bool = False,
) -> Certified:
    """Solve and bound an instance within ``timeout`` seconds; InputError if no feasible solution is known or found.

    Every step is a run under the referee, which verifies what it finds. The search ends once the bound meets the cost.
    ``unit_us`` is the unit of costs in microseconds, for what ``tell`` gets. ``known`` is a solution with its verified
    cost, returned if no method finds a better one. ``certificates`` asks the methods for certificates of their bounds,
    which are checked.
    """
    ends = time.monotonic() + timeout
    best = known
    bounds: list[tuple[Cost, str]] = [(instance.summary()["simple_bound"], "simple")]
    stated: list[Evidence] = []
    reasons: list[str] = []
    late = True  # if no method lacked anything but time
    for step in steps:
        limit = max(step.share * (ends - time.monotonic()), LEAST_S if best else FIRST_S)
        tell(f"running {step.method} for at most {limit:.0f} s")
        call = api.solve if step.kind == "solver" else api.bound
        found = call(instance, step.method, timeout=limit, cores=cores, seed=seed, certificate=certificates)
        if found.cost is not None and (best is None or found.cost < best[1]):
            best = found.solution, found.cost
        if found.lower_bound is not None and found.bound_from == found.method:
            bounds.append((found.lower_bound, found.method))
            stated.append(Evidence(found.method, found.lower_bound, found.checked_bound))
        if best is None:
            late = late and found.status == "timeout"
            reasons.append(f"{step.method}: {found.reason or found.status}")
            tell(f"{step.method}: no split yet ({found.wall_s:.1f} s)")
            continue
        cost = best[1]
        bounds = _trusted(bounds, cost, tell)
        distance = words(gap(cost, max(bounds)[0]))
        tell(f"{step.method}: {cost * unit_us:,.6g} µs, {distance} ({found.wall_s:.1f} s)")
        if cost <= max(bounds)[0] * (1 + CLOSE):
            break
    if best is None:
        lack = f"a timeout of more than {timeout:g} s" if late else "a model that the devices can hold and run"
        expected = f"expected {lack}; no split was found ({'; '.join(reasons)})"
        raise InputError(instance.name, "", expected)
    bound, bound_from = max(bounds)
    return Certified(*best, bound, bound_from, grade(instance.track, stated, bound, best[1]))


def _trusted(bounds: Sequence[tuple[Cost, str]], cost: Cost, tell: Tell) -> list[tuple[Cost, str]]:
    """The bounds that no verified cost contradicts; the others are named."""
    trusted = []
    for value, method in bounds:
        if contradicts(value, cost, isinstance(cost, int)):
            tell(f"{method} claims the bound {value!r}, which the verified cost {cost!r} contradicts: ignored")
        else:
            trusted.append((value, method))
    return trusted


def words(gap: float | None) -> str:
    """A proven gap in words; None means that the bound is 0."""
    if gap is None:
        return "no lower bound above 0 is known"
    return f"at most {_percent(gap)} % above the best split there is" if gap else "proven optimal"


def _percent(share: float) -> str:
    """A share in percent, rounded up to two digits, as it is a claim; the least is 0.001.

    >>> _percent(0.27412), _percent(1.284), _percent(0.000015), _percent(1e-9)
    ('28', '129', '0.0015', '0.001')
    """
    value = max(100 * share, 0.001)
    unit = 10.0 ** min(math.floor(math.log10(value)) - 1, 0)
    return f"{math.ceil(value / unit - 1e-6) * unit:.6g}"
