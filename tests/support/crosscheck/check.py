"""Contradictions between what methods claim on one instance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import fuzz
from fuzz import Exact

from crosscheck.claims import Claims
from shardmark.harness.results.claims import contradicts, proves

#: A bound this close below the least verified cost, relatively, would be seen if it were false by as much.
TIGHT = Fraction(1, 1000)


@dataclass(frozen=True)
class Contradiction:
    """A false claim of a method, and the method and claim that make it false."""

    method: str
    claim: str
    against: str


def contradictions(track: str, by_method: Mapping[str, Claims]) -> list[Contradiction]:
    """Return every contradiction on an instance between the claims of its methods, by name."""
    found = list(_invalid(by_method))
    best = least(by_method)
    if best is not None:
        found += _false_bounds(track, by_method, best)
    found += _false_impossibilities(by_method)
    return found + list(_unequal_proofs(track, by_method, {entry.method for entry in found}))


def least(by_method: Mapping[str, Claims]) -> tuple[str, Claims] | None:
    """Return the method of least verified cost and its claims, None if none has a solution."""
    costs = [(claims.cost, name) for name, claims in by_method.items() if claims.cost is not None]
    name = min(costs)[1] if costs else None
    return None if name is None else (name, by_method[name])


def _invalid(by_method: Mapping[str, Claims]) -> Iterator[Contradiction]:
    for name, claims in by_method.items():
        if claims.invalid:
            yield Contradiction(name, claims.invalid, "the contract")
        if claims.misjudged:
            yield Contradiction("verifier", f"on a solution of {name}", claims.misjudged)


def _false_bounds(track: str, by_method: Mapping[str, Claims], best: tuple[str, Claims]) -> Iterator[Contradiction]:
    """Yield bounds above the least cost: exactly if the oracle counted it, else beyond the project's tolerance."""
    name, cost = best[0], best[1].cost
    assert cost is not None
    for method, claims in by_method.items():
        if claims.bound is not None and contradicts(claims.bound, cost, track == "intraop" or best[1].exact):
            yield Contradiction(method, f"bound {fuzz.shown(claims.bound)}", f"cost {fuzz.shown(cost)} of {name}")
        if claims.infinite:
            yield Contradiction(method, "an infinite bound", f"cost {fuzz.shown(cost)} of {name}")


def _false_impossibilities(by_method: Mapping[str, Claims]) -> Iterator[Contradiction]:
    for method, claims in by_method.items():
        witness = next((name for name, other in by_method.items() if claims.nothing in other.refutes), None)
        if claims.nothing and witness:
            yield Contradiction(method, f"declines: {claims.declined}", f"a solution of {witness}")


def proven(track: str, claims: Claims) -> bool:
    """Return True if the method's own bound meets its own cost."""
    integral = track == "intraop"
    return claims.cost is not None and claims.bound is not None and proves(claims.bound, claims.cost, integral)


def tight(claims: Claims, best: Exact | None) -> bool:
    """Return True if the bound is within 0.1 % of the least cost, which is positive: 0 is tight for nothing."""
    return bool(best) and claims.bound is not None and best is not None and claims.bound >= best * (1 - TIGHT)


def _unequal_proofs(track: str, by_method: Mapping[str, Claims], known: set[str]) -> Iterator[Contradiction]:
    """Yield methods that prove another cost optimal than the least that is proven; not those that are false anyway."""
    costs = {name: claims.cost for name, claims in by_method.items() if proven(track, claims)}
    first = min(costs, key=lambda name: costs[name] or 0, default=None)
    for name, cost in costs.items():
        if first is None or name in known:
            continue
        lower = costs[first]
        assert cost is not None
        assert lower is not None
        if not proves(lower, cost, track == "intraop"):
            yield Contradiction(name, f"proves {fuzz.shown(cost)}", f"{first} proves {fuzz.shown(lower)}")
