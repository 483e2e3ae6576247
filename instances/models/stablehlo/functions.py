"""Functions of a StableHLO module, and who calls whom."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from shardmark.instances.models.calls import Body
from shardmark.instances.models.stablehlo.loops import RULES

RETURNS = ("func.return", "stablehlo.return")
_GENERATORS = ("threefry2x32", "_threefry2x32")


def bodies(functions: Mapping[str, Any]) -> Mapping[Hashable, Body]:
    """Return the number of operations, the length of their names and the calls of each function, by its name."""
    return {name: _body(function.regions[0].blocks[0]) for name, function in functions.items() if _has_body(function)}


def _has_body(function: Any) -> bool:
    return len(function.regions[0].blocks) > 0


def _body(block: Any) -> Body:
    operators, size, calls = 0, 0, list[tuple[Hashable, int]]()
    for operation in (view.operation for view in block.operations):
        if operation.name in RETURNS:
            break
        length, callee = len(label(operation)[0]), callee_of(operation)
        if callee is None:
            operators, size = operators + 1, size + length
        else:
            calls.append((callee, length + 1))
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
