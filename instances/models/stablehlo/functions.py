"""Functions of a StableHLO module, and who calls whom."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from shardmark.instances.models.calls import Body
from shardmark.instances.models.stablehlo.loops import RULES

RETURNS = ("func.return", "stablehlo.return", "sdy.return")
#: Operations whose regions are read, as those of a loop or a branch.
REGIONS = ("stablehlo.while", "stablehlo.case", "stablehlo.if", "sdy.manual_computation")
_GENERATORS = ("threefry2x32", "_threefry2x32")


def bodies(functions: Mapping[str, Any]) -> Mapping[Hashable, Body]:
    """Return the number of operations, the length of their names and the calls of each function, by its name."""
    found = ((name, function) for name, function in functions.items() if len(function.regions[0].blocks))
    return {name: body_of(function.regions[0].blocks[0]) for name, function in found}


def body_of(block: Any) -> Body:
    """A block, with the blocks of loops and branches in it once each."""
    operators, size, calls, blocks = 0, 0, list[tuple[Hashable, int]](), [block]
    while blocks:
        for operation in (view.operation for view in blocks.pop().operations):
            if operation.name in RETURNS:
                break
            length, callee = len(label(operation)[0]), callee_of(operation)
            if callee is None:
                operators, size = operators + 1, size + length
            else:
                calls.append((callee, length + 1))
            if operation.name in REGIONS:
                blocks += [inner for region in operation.regions for inner in region.blocks]
    return Body(operators, size, calls)


def callee_of(operation: Any) -> str | None:
    """The function whose body stands for an operation; None for an operator, as JAX's generator of random numbers."""
    if operation.name == "func.call":
        callee = str(operation.attributes["callee"].value)
        return None if callee.startswith(_GENERATORS) else callee
    if operation.name == "stablehlo.composite" and composed(operation) not in RULES:
        return str(operation.attributes["decomposition"].value)
    return None


def composed(operation: Any) -> str:
    """The name of a composition without its dialect."""
    return str(operation.attributes["name"].value).removeprefix("chlo.")


def label(operation: Any) -> tuple[str, Any]:
    """The name of an operation's location, else its kind; and its line in the program."""
    from jaxlib.mlir import ir

    location = operation.location
    if isinstance(location, ir.NameLoc):
        return location.name_str.rstrip(":"), location.child_loc.attr
    return operation.name.partition(".")[2], location.attr
