"""JSON documents: parts of the placement paper's files, and copies with one value changed or removed.

A path to a value is keys, and indices of lists, joined by dots.
"""

from __future__ import annotations

import copy
from typing import Any


def node(identity: int, **more: Any) -> dict[str, Any]:
    """Return a node of a file of the placement paper."""
    usual = {"supportedOnFpga": 1, "cpuLatency": 8.0, "fpgaLatency": 2.0, "isBackwardNode": False, "size": 3}
    return {"id": identity, **usual, **more}


def edge(tail: int, head: int, cost: float = 0.5, **more: Any) -> dict[str, Any]:
    """Return an edge of such a file."""
    return {"sourceId": tail, "destId": head, "cost": cost, **more}


def changed(document: Any, changes: dict[str, Any]) -> Any:
    """Return a copy with the values at some paths replaced."""
    document = copy.deepcopy(document)
    for path, value in changes.items():
        place, key = _place(document, path)
        place[key] = value
    return document


def removed(document: Any, path: str) -> Any:
    """Return a copy without the value at a path."""
    document = copy.deepcopy(document)
    place, key = _place(document, path)
    del place[key]
    return document


def _place(document: Any, path: str) -> tuple[Any, str | int]:
    *inner, last = path.split(".")
    for step in inner:
        document = document[_key(document, step)]
    return document, _key(document, last)


def _key(container: Any, step: str) -> str | int:
    return int(step) if isinstance(container, list) else step
