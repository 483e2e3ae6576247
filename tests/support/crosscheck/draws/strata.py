"""Even choice of options over indices, and sources of numbers and edges for them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import fuzz

from shardmark.instances import InputError

#: Primes, as their square roots are incommensurable: multiples of these, modulo 1, fill the unit cube evenly.
PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)

#: Nodes of an instance, fewest and most.
FEWEST, MOST = 20, 60

#: Attempts to draw a valid instance.
ATTEMPTS = 300

#: Sources of numbers, see `numbers`.
NUMBERS = ("ordinary", "equal", "zeros", "mixed", "integers", "extreme")

#: Shapes of graphs that need no generator family, see `edges`.
SHAPES = ("chain", "fan-out", "layers", "recent", "sparse", "apart")

Value = TypeVar("Value")
Pairs = list[tuple[int, int]]


@dataclass(frozen=True)
class Drawn:
    """An instance with the mode and the kind that tables count it under."""

    instance: Any
    mode: str
    kind: str


def strata(index: int, **options: Sequence[Any]) -> dict[str, Any]:
    """Choose a value for each option: over any run of indices, values and pairs of values have about equal shares."""
    shares = ((index + 1) * math.sqrt(prime) % 1 for prime in PRIMES)
    return {
        name: values[int(share * len(values))] for (name, values), share in zip(options.items(), shares, strict=False)
    }


def valid(build: Callable[[], Value]) -> Value:
    """Return what ``build`` makes first without an InputError, as of too large numbers or too little memory."""
    for _ in range(ATTEMPTS):
        with suppress(InputError):
            return build()
    return build()


def numbers(kind: str, rng: random.Random) -> Callable[[], float]:
    """Return a source of numbers from 0 up."""
    constant = float(rng.randint(1, 100))
    kinds: dict[str, Callable[[], float]] = {
        "ordinary": lambda: round(rng.uniform(1, 100), 2),
        "equal": lambda: constant,
        "zeros": lambda: float(rng.choice([0, 0, 0, rng.randint(1, 9)])),
        "mixed": lambda: 10 ** rng.uniform(-3, 9),
        "integers": lambda: float(rng.randint(1, 9)),
        "none": lambda: 0.0,
    }
    return fuzz.numbers(rng) if kind == "extreme" else kinds[kind]


def edges(shape: str, nodes: int, rng: random.Random) -> Pairs:
    """Return the edges of a graph, each from a lower to a higher number."""
    if shape == "chain":
        return [(v - 1, v) for v in range(1, nodes)]
    if shape == "fan-out":
        hub = rng.randrange(max(1, nodes // 4))
        return [(hub, v) for v in range(hub + 1, nodes - 1)] + [(v, nodes - 1) for v in range(hub + 1, nodes - 1)]
    if shape == "layers":
        width = rng.randint(2, 6)
        layers = [range(first, min(first + width, nodes)) for first in range(0, nodes, width)]
        pairs = ((u, v) for a, b in pairwise(layers) for u in a for v in b)
        return [pair for pair in pairs if rng.random() < 0.5]
    if shape == "recent":
        reads = [rng.sample(range(max(0, v - 5), v), min(v, rng.randint(1, 2))) for v in range(nodes)]
        return [(u, v) for v, read in enumerate(reads) for u in sorted(read)]
    if shape == "sparse":
        return [(u, v) for v in range(nodes) for u in range(v) if rng.random() < 3 / nodes]
    return []


def renumbered(pairs: Pairs, nodes: int, rng: random.Random) -> Pairs:
    """Return the same graph under other numbers: no method may rely on their order."""
    number = rng.sample(range(nodes), nodes)
    return [(number[u], number[v]) for u, v in pairs]
