"""``intraop`` by its definition, in Python integers: the cost of a solution, and the optimum of small instances.

"Soft Constraints, Strong Solutions", Section 3, Equations (1) and (2), with the half-open intervals of the contest's
files. Shares no code with the verifier or the solvers.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from shardmark.instances.intraop import Instance, parse, to_document

#: An entry from here on means "impossible" in the contest's files, a reason of solvers to decline.
IMPOSSIBLE = 10**17


class Oracle:
    """An instance as plain lists."""

    def __init__(self, instance: Instance) -> None:
        problem = to_document(instance)["problem"]
        self.intervals, limit = problem["nodes"]["intervals"], problem.get("usage_limit")
        self.limit = math.inf if limit is None else limit
        self.costs, self.usages = problem["nodes"]["costs"], problem["nodes"]["usages"]
        self.edges = list(zip(problem["edges"]["nodes"], problem["edges"]["costs"], strict=True))

    def entries(self, strategy: Sequence[int]) -> Iterator[int]:
        """Yield the terms of Equation (1)."""
        yield from (costs[s] for costs, s in zip(self.costs, strategy, strict=True))
        for scope, table in self.edges:
            cell = 0
            for v in scope:
                cell = cell * len(self.costs[v]) + strategy[v]
            yield table[cell]

    def excess(self, strategy: Sequence[int]) -> float:
        """Return the memory above the limit in the worst time step, Equation (2): 0 or less if the strategies fit.

        Memory in use only grows where some node begins.
        """
        rows = zip(self.intervals, self.usages, strategy, strict=True)
        live = [(begin, end, usages[s]) for (begin, end), usages, s in rows if begin < end]
        in_use = [sum(usage for begin, end, usage in live if begin <= step < end) for step, _, _ in live]
        return max(in_use, default=0) - self.limit

    def assignments(self) -> Iterator[tuple[int, ...]]:
        """Yield all assignments, whether they fit or not."""
        return itertools.product(*(range(len(costs)) for costs in self.costs))


def judge(instance: Instance, solution: list[int]) -> tuple[bool, int]:
    """Return whether a list of valid strategies fits into memory, and its cost."""
    oracle = Oracle(instance)
    return oracle.excess(solution) <= 0, sum(oracle.entries(solution))


def optimum(instance: Instance) -> int | None:
    """Return the least cost of any assignment that fits; None if none does."""
    return _least(instance)[0]


@cache
def _least(instance: Instance) -> tuple[int | None, int]:
    """Return the optimum, and the least value of the greatest entry over assignments that fit."""
    oracle = Oracle(instance)
    fitting = [list(oracle.entries(strategy)) for strategy in oracle.assignments() if oracle.excess(strategy) <= 0]
    return min(map(sum, fitting), default=None), min((max(entries, default=0) for entries in fitting), default=0)


def false_reason(instance: Instance, optimum: int | None, reason: str) -> bool:
    """Return True if a reason to decline is false: nothing fits, or nothing without an entry of 10^17 or more."""
    if reason.startswith("time step "):
        return optimum is not None
    return _least(instance)[1] < IMPOSSIBLE


def draw(rng: random.Random) -> Instance:
    """Return up to five nodes of up to four strategies, with costs and memory of one extreme kind or several."""
    return draw_of(rng, rng.randint(0 if rng.random() < 0.1 else 1, 5))


def draw_of(rng: random.Random, n: int, most: int = 4) -> Instance:
    """Return ``n`` nodes of up to ``most`` strategies."""
    cost, usage = numbers(rng), numbers(rng)
    menus = [rng.randint(1, most) for _ in range(n)]
    shift = rng.choice([0, 0, 0, 2**31, 2**62])
    begins = [rng.randint(0, 4) for _ in range(n)]
    scopes = [
        [rng.randrange(n) for _ in range(rng.choice([1, 2, 2, 2, 2, 3, 4]))] for _ in range(rng.randint(0, 2 * n))
    ]
    closed = rng.choice([0, 0, 0.2, 0.5])
    document = {
        "nodes": {
            "intervals": [[shift + b, shift + b + rng.randint(0, 4)] for b in begins],
            "costs": [[cost() for _ in range(menu)] for menu in menus],
            "usages": [[usage() for _ in range(menu)] for menu in menus],
        },
        "edges": {
            "nodes": scopes,
            "costs": [
                [10**18 if rng.random() < closed else cost() for _ in range(math.prod(menus[v] for v in scope))]
                for scope in scopes
            ],
        },
        "usage_limit": 0,
    }
    document["usage_limit"] = _limit(rng, document)
    return parse({"problem": document}, "drawn")


def numbers(rng: random.Random) -> Callable[[], int]:
    """Return a source of integers from 0 to 2^63 - 1: small, tied, of any size, near limits of types, or a mix."""
    base = rng.choice([2**31, 2**53, 10**17, 2**56, 2**57, 2**58, 2**60, 10**18, 2**62, 2**63 - 4])

    def any_size() -> int:
        return rng.getrandbits(rng.randint(1, 63))

    kinds: list[Callable[[], int]] = [
        lambda: rng.randint(0, 9),
        lambda: rng.randint(0, 9),
        lambda: rng.choice([0, 0, 1, 10**18]),
        lambda: rng.randint(0, 10**6),
        any_size,
        lambda: base + rng.randint(-3, 3),
        lambda: rng.choice([0, 1, 5, base + rng.randint(-3, 3)]),
        lambda: rng.choice([0, 2**63 - 1]),
    ]
    if rng.random() < 0.3:
        return lambda: rng.choice(kinds)()
    return rng.choice(kinds)


def _limit(rng: random.Random, document: dict[str, Any]) -> int | None:
    """Return a limit: None, the greatest, any, or mostly near the need of some assignment."""
    kind = rng.random()
    if kind < 0.2:
        return rng.choice([None, 2**63 - 1, 0, rng.getrandbits(63)])
    rows = zip(document["nodes"]["intervals"], document["nodes"]["usages"], strict=True)
    live = [(begin, end, rng.choice(usages)) for (begin, end), usages in rows]
    need = max((sum(u for a, b, u in live if a <= t < b) for t, end, _ in live if t < end), default=0)
    return min(max(0, need + rng.choice([0, 0, 0, -1, 1, need // 8])), 2**63 - 1)


def draw_solution(rng: random.Random, instance: Instance) -> list[int]:
    """Return random valid strategies."""
    return [rng.randrange(count) for count in instance.strategies.tolist()]
