"""Grades of lower bounds: how far each was checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from shardmark.harness.results.claims import Number, contradicts, optimal
from shardmark.harness.results.records import number

CHECKED, AGREED, CLAIMED = "checked", "agreed", "claimed"
#: From the strongest to the weakest.
GRADES = (CHECKED, AGREED, CLAIMED)
#: The author of published costs and bounds.
PUBLISHED = "published"
#: The catalog's source of a value that was not published begins with one of these.
UNPUBLISHED = ("enumeration", "ours")

_LOADS = ("anchored", "configurations", "dp", "load", "lp", "node")
_STAGES = ("anchored", "reweighted", "simple")
#: Families of methods by track. Methods of two families share no code that their bounds rest on, and none lets an
#: engine search for its bound. Methods that are not named here agree with none.
FAMILIES: Mapping[str, Mapping[str, str]] = {
    "intraop": dict.fromkeys(("lagrange", "lp", "simple"), "costs moved"),
    "pipeline": dict.fromkeys(_STAGES, "stages") | {"windows": "windows"},
    "placement": dict.fromkeys(_LOADS, "loads") | dict.fromkeys(("critical-path", "memory-path"), "paths"),
    "scheduling": dict.fromkeys(("critical-path", "energetic", "load", "memory-first"), "paths and loads"),
    "hybrid": dict.fromkeys(("dp", "relaxed-dp", "search", "simple"), "stages"),
}


class Evidence(NamedTuple):
    """A lower bound that somebody states: ``by`` is a method's name or `PUBLISHED`.

    ``proven`` is the greatest bound that its certificate was found to prove; None without a certificate.
    """

    by: str
    value: Number
    proven: Number | None = None


def grade(track: str, stated: Iterable[Evidence], bound: Number, cost: Number | None = None) -> str:
    """Return the grade of a bound on an instance of a track, from all bounds that are ``stated`` for the instance.

    `CHECKED`  a certificate proves a bound that suffices
    `AGREED`   two methods of different families, or one of them and a publication, state bounds that suffice
    `CLAIMED`  otherwise

    A bound suffices if it is at least as great as ``bound``, exactly; if that proves the least verified ``cost``
    optimal, it suffices to prove this as well. Bounds above that cost support nothing.
    """
    known = list(stated)
    if any(x.proven is not None and _suffices(x.proven, bound, cost) for x in known):
        return CHECKED
    families = {PUBLISHED: PUBLISHED, **FAMILIES[track]}
    agreeing = {families[x.by] for x in known if x.by in families and _suffices(x.value, bound, cost)}
    return AGREED if len(agreeing) > 1 else CLAIMED


def _suffices(value: Number, bound: Number, cost: Number | None) -> bool:
    if optimal(cost, bound):
        return bool(optimal(cost, value))
    refuted = cost is not None and contradicts(value, cost, isinstance(cost, int))
    return Fraction(value) >= Fraction(bound) and not refuted


def published(facts: Mapping[str, Any]) -> list[Evidence]:
    """Return the lower bound among the published facts of an instance, if the catalog has one and it was published."""
    if "lower_bound" not in facts or str(facts.get("lower_bound_source")).startswith(UNPUBLISHED):
        return []
    return [Evidence(PUBLISHED, number(str(facts["lower_bound"])))]
