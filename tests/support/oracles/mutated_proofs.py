"""Mutations of certificates: numbers, signs, what is missing, twice or too much, huge numbers, types, deep nesting."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from typing import Any

HUGE = [2**59, -(2**59), 2**63, -(2**63), 2**64, 10**300, -(10**300), 10**4000]
KINDS = ["configurations", "costs-moved", "formula", "heads", "load", "node", "path", "solutions", "stages", "states"]
KINDS += ["windows", "work"]
ODD = [None, True, "1", "NaN", "", [], {}, [[]], 1e308, -1e308, 0.5, [0] * 1000, *KINDS]
#: Keys of proofs, which a proof may lack.
KEYS = ["branch", "cases", "closed", "computing", "devices", "flows", "head", "kind", "moved", "name", "need", "part"]
KEYS += ["price", "tail", "trees", "weight"]


def mutated(rng: random.Random, proof: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a proof with one to three changes."""
    result: dict[str, Any] = copy.deepcopy(dict(proof))
    for _ in range(rng.choice([1, 1, 2, 3])):
        _change(rng, result)
    return result


def nested(depth: int) -> list[Any]:
    """Return lists in lists."""
    result: list[Any] = []
    for _ in range(depth):
        result = [result]
    return result


def _change(rng: random.Random, proof: dict[str, Any]) -> None:
    """Change one place of a proof: any value, or a list or an object as a whole."""
    at: Any = proof
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            return
        key = rng.choice(keys)
        value = at[key]
        if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
            break
        at = value
    kind = rng.random()
    if isinstance(at, dict) and rng.random() < 0.1:
        at[rng.choice(KEYS)] = rng.choice([rng.randint(-2, 40), rng.random(), *HUGE, *ODD, nested(150)])
    elif kind < 0.5 and type(value) in (int, float):
        at[key] = rng.choice([value + 1, value - 1, -value, 2 * value, value // 2, value + rng.randint(-1000, 1000)])
    elif kind < 0.6:
        at[key] = rng.choice(HUGE)
    elif kind < 0.7:
        at[key] = rng.choice([*ODD, nested(150)])
    elif kind < 0.8 or isinstance(at, dict):
        del at[key]
    elif kind < 0.9:
        at.insert(key, copy.deepcopy(value))
    else:
        other = rng.randrange(len(at))
        at[key], at[other] = at[other], at[key]
