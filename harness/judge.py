"""After a run: verify what it handed in, and merge how it ended, what it claimed and what is true."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from harness.compare import contradicts
from harness.limits import Limits, Outcome
from harness.protocol import Message, ProtocolError, decode
from harness.store import Bound, Incumbent
from harness.verify import verify


@dataclass(frozen=True)
class Verified:
    """What a run handed in, after verification: claimed and true are apart."""

    incumbents: tuple[Incumbent, ...] = ()
    bounds: tuple[Bound, ...] = ()
    cost: int | float | None = None
    solution: Any = None
    lower_bound: int | float | None = None
    violation: str = ""
    last: Message | None = None
    fault: str = ""


def examine(instance: Any, outcome: Outcome) -> Verified:
    """Decode and verify every message of a run."""
    incumbents: list[Incumbent] = []
    bounds: list[Bound] = []
    best, solution, violation, last, fault = None, None, "", None, outcome.fault or ""
    for arrival, payload in outcome.messages:
        try:
            last = decode(payload)
        except ProtocolError as error:
            fault = str(error)
            continue
        if last.kind == "solution":
            verdict = verify(instance, last.value)
            incumbents.append(Incumbent(arrival, verdict.feasible, verdict.cost))
            if not verdict.feasible:
                violation = verdict.violations[0]
            elif verdict.cost is not None and (best is None or verdict.cost < best):
                best, solution = verdict.cost, last.value
        elif last.kind == "bound":
            if type(last.value) in (int, float) and abs(last.value) <= sys.float_info.max:
                bounds.append(Bound(arrival, last.value))
            else:
                fault = "reported a bound that is no finite number"
    if last is not None and last.kind == "done" and type(last.value) is int:
        outcome.peak_mib = max(outcome.peak_mib, last.value / 2**20)
    greatest = max((bound.value for bound in bounds), default=None)
    return Verified(tuple(incumbents), tuple(bounds), best, solution, greatest, violation, last, fault)


def merge(kind: str, limits: Limits, outcome: Outcome, found: Verified) -> tuple[str, str, str]:
    """``(stop, status, reason)``: the one place where how a run ended, what it claimed and what is true meet."""
    stop, reason = outcome.stop, outcome.reason
    last = found.last
    if last is not None and last.kind in ("declined", "error"):
        stop, reason = last.kind, str(last.value)
    elif stop == "exit" and (last is None or last.kind != "done"):
        stop, reason = "crash", "ended its process without returning"
    if stop == "exit" and outcome.peak_mib > limits.memory_mib:
        stop, reason = "memory", limits.overused(outcome.peak_mib)
    cost, bound = found.cost, found.lower_bound
    if cost is not None and bound is not None and contradicts(bound, cost, isinstance(cost, int)):
        return stop, "contradiction", f"claims the lower bound {bound!r}, but has a solution of cost {cost!r}"
    if stop != "exit":
        return stop, stop, reason
    if found.fault:
        return stop, "error", found.fault
    if cost is not None or (kind == "bound" and bound is not None):
        return stop, "ok", ""
    if found.violation:
        return stop, "infeasible", found.violation
    return stop, "none", "reported no solution" if kind == "solver" else "reported no lower bound"
