"""Programs that call functions: what they hold once every call is replaced by the body of its function.

A few hundred bytes can stand for any number of operators, as each function may call the one before it twice. The size
is therefore computed from the calls, before any of them is replaced.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from shardmark.instances.errors import InputError

MOST = 2_000_000  # operators of a program, calls replaced
MOST_BYTES = 1 << 30  # of their names and attributes
_ENDLESS = 10**18  # larger counts are not told apart


@dataclass(frozen=True, slots=True)
class Body:
    """A function, calls not replaced yet.

    ``operators``  number of operators that are no calls
    ``bytes``      their names and attributes
    ``calls``      for every call the key of its function, and the bytes that it adds to each operator of that
    """

    operators: int
    bytes: int
    calls: Sequence[tuple[Hashable, int]]


Sizes = Mapping[Hashable, tuple[int, int]]  # of functions, calls replaced: operators and bytes


def require_few(bodies: Mapping[Hashable, Body], main: Hashable, source: str) -> Sizes:
    """Raise InputError for recursion, and if ``main`` has too many operators or bytes once all calls are replaced.

    Calls of functions without a body here count as nothing. Returns the sizes of all functions.
    """
    callees = {key: {callee for callee, _ in body.calls if callee in bodies} for key, body in bodies.items()}
    try:
        ordered = list(TopologicalSorter(callees).static_order())
    except CycleError as error:
        raise InputError(source, "functions", f"expected no recursion, found {_chain(error.args[1][::-1])}") from None
    sizes: dict[Hashable, tuple[int, int]] = {}
    for key in ordered:
        sizes[key] = counted(bodies[key], sizes)
    for found, most, what in zip(sizes[main], (MOST, MOST_BYTES), ("operators", "bytes of operators"), strict=True):
        if found > most:
            amount = f"{found:,}" if found < _ENDLESS else f"over {_ENDLESS:,}"
            expected = f"expected at most {most:,} {what} once function calls are inlined, found {amount}"
            raise InputError(source, "functions", expected)
    return sizes


def counted(body: Body, sizes: Sizes) -> tuple[int, int]:
    """Operators and bytes of a body, calls replaced by functions of these sizes."""
    operators, size = body.operators, body.bytes
    for callee, added in body.calls:
        inner = sizes.get(callee, (0, 0))
        operators, size = operators + inner[0], size + inner[1] + added * inner[0]
    return min(operators, _ENDLESS), min(size, _ENDLESS)


def _chain(cycle: Sequence[Hashable]) -> str:
    """Names of functions that call each other, in a circle."""
    names = [str(key) for key in cycle]
    return " calls ".join(names if len(names) < 6 else [*names[:3], "...", names[-1]])
