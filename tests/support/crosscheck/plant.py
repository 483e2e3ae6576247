"""False claims on purpose: which of them the cross-check finds, and on how many instances.

A fault is planted into what a method reports, or into the instance that it sees; nothing of the product changes.

raised      each bound is 0.1 % higher, at least by 1 between integers
infeasible  a method that found no solution says that there is none
restricted  the method sees the instance with something dropped, see `restrict`

The results of an honest run say what each instance costs. So the first two faults need no run, and for the third only
methods run whose fault was not found on instances before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from crosscheck import campaign, drawn
from crosscheck.campaign import Result, Settings, Task
from crosscheck.check import contradictions
from crosscheck.claims import Claims

#: Factor of bounds that are raised.
RAISED = Fraction(1001, 1000)


@dataclass
class Fault:
    """What became of a fault: instances on which it was planted, and the seeds that revealed it."""

    planted: int = 0
    revealed: tuple[int, ...] = ()


def raised(track: str, claims: Claims) -> Claims | None:
    """Return the claims with a higher bound, None without a bound."""
    if claims.bound is None:
        return None
    higher = claims.bound * RAISED
    return replace(claims, bound=max(int(higher), claims.bound + 1) if track == "intraop" else higher)


def infeasible(track: str, claims: Claims) -> Claims | None:
    """Return the claims of a method that takes "unknown" for "nothing", None if it found a solution or failed."""
    if claims.cost is not None or claims.failed:
        return None
    return replace(claims, nothing="any", declined="planted: nothing fits")


def reveals(result: Result, method: str, planted: Claims) -> bool:
    """Return True if the claims of a method, in place of its own, contradict those of others, or its own solutions."""
    own = result.claims[method]
    kept = replace(planted, cost=own.cost, exact=own.exact, refutes=own.refutes, misjudged="", invalid="")
    return any(found.method == method for found in contradictions(result.track, {**result.claims, method: kept}))


def claimed_faults(results: Sequence[Result]) -> dict[tuple[str, str], Fault]:
    """Plant the faults of claims into every method of some results; return them by method and name."""
    faults = dict[tuple[str, str], Fault]()
    for result in results:
        for method, claims in result.claims.items():
            for name, plant in (("raised", raised), ("infeasible", infeasible)):
                fault = faults.setdefault((method, name), Fault())
                planted = plant(result.track, claims)
                if planted is not None:
                    fault.planted += 1
                    fault.revealed += (result.seed,) if reveals(result, method, planted) else ()
    return faults


def restricted_faults(results: Sequence[Result], seconds: float, most: int) -> dict[tuple[str, str], Fault]:
    """Let methods see restricted instances, each method until one reveals it, up to ``most`` instances."""
    faults = {(method, "restricted"): Fault() for result in results for method in result.claims if method != "draw"}
    for result in results[:most]:
        missing = tuple(method for (method, _), fault in faults.items() if not fault.revealed)
        if not missing:
            break
        settings = Settings(seconds, missing, restricted=True)
        for other in campaign.run([Task(result.track, result.seed)], settings, 1):
            for method, claims in other.claims.items():
                if method in result.claims and (claims.bound is not None or claims.nothing):
                    fault = faults[method, "restricted"]
                    fault.planted += 1
                    fault.revealed += (result.seed,) if reveals(result, method, claims) else ()
    return faults


def report(folder: Path, tracks: Iterable[str], seconds: float, most: int) -> str:
    """Return a table of faults: the instances that the drawn part has come first, then all others by seed."""
    lines = []
    for track in tracks:
        results = campaign.read(folder, track)
        early = set(drawn.SEEDS[track])
        results.sort(key=lambda result: (result.seed not in early, result.seed))
        faults = claimed_faults(results) | restricted_faults(results, seconds, most)
        order = [result.seed for result in results]
        lines += [_row(track, method, name, fault, early, order) for (method, name), fault in sorted(faults.items())]
    rows = [HEAD, *lines]
    wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, wide)).rstrip() for row in rows)


HEAD = ("track", "method", "fault", "planted", "revealed by", "drawn part", "instances needed")


def _row(track: str, method: str, name: str, fault: Fault, early: set[int], order: Sequence[int]) -> tuple[str, ...]:
    if not fault.planted:
        return (track, method, name, "0", "-", "-", "-")
    found = "yes" if early & set(fault.revealed) else "no"
    needed = str(min(map(order.index, fault.revealed)) + 1) if fault.revealed else "not found"
    counted = "1+" if name == "restricted" and fault.revealed else str(len(fault.revealed))
    return (track, method, name, str(fault.planted), counted, found, needed)
