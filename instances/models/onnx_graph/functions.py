"""Functions that an ONNX model brings along: who calls whom, and inlining."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.models.calls import Body, require_few

_MAIN = "the graph"


def inlined(model: Any, source: str) -> Any:
    """An `onnx.ModelProto` with the bodies of its functions in place of their calls.

    Raises InputError before memory grows for recursion and for more operators than `shardmark.instances.models.calls`
    admits, and if onnx cannot inline the functions.
    """
    import onnx.inliner

    if not model.functions:
        return model
    defaults = {_key(function): _size(function.attribute_proto) for function in model.functions}
    bodies: dict[Hashable, Body] = {_key(function): _body(function.node, defaults) for function in model.functions}
    require_few({**bodies, _MAIN: _body(model.graph.node, defaults)}, _MAIN, source)
    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:  # of onnx's own kinds, which have no common base
        raise InputError(source, "functions", f"expected functions that onnx can inline ({sentence(error)})") from None


def sentence(error: Exception) -> str:
    """The first line of a message of onnx, shortened, without the place in onnx's own source."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return re.sub(r"^\S+:\d+: \w+: Assertion `.*` failed: ", "", line)[:160]


class _Key(tuple[str, str, str]):
    """Domain, name and overload of a function."""

    def __str__(self) -> str:
        return self[1]


def _key(function: Any) -> _Key:
    return _Key((function.domain, function.name, function.overload))


def _callee(node: Any) -> _Key:
    return _Key((node.domain, node.op_type, node.overload))


def _body(nodes: Iterable[Any], defaults: Mapping[_Key, int]) -> Body:
    """Count the operators, bytes and calls of a list of nodes.

    Each operator of a called function may repeat the attributes of the call and the function's ``defaults``.
    """
    inside = list(_all(nodes))
    calls = [(_callee(node), _size(node.attribute)) for node in inside if _callee(node) in defaults]
    added = [(callee, size + defaults[callee]) for callee, size in calls]
    return Body(len(inside) - len(calls), _size(nodes), added)


def _size(parts: Iterable[Any]) -> int:
    """Bytes of protobufs."""
    return sum(part.ByteSize() for part in parts)


def _all(nodes: Iterable[Any]) -> Iterator[Any]:
    """Nodes, and those of the graphs in their attributes."""
    ahead = [iter(nodes)]
    while ahead:
        for node in ahead.pop():
            yield node
            for attribute in node.attribute:
                ahead += [iter(graph.node) for graph in (attribute.g, *attribute.graphs)]
