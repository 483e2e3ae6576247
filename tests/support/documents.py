"""Copies of JSON documents with one value changed or removed; a path is keys and indices joined by dots."""

from __future__ import annotations

import copy
from typing import Any


def changed(document: Any, changes: dict[str, Any]) -> Any:
    """A copy with the values at some paths replaced."""
    document = copy.deepcopy(document)
    for path, value in changes.items():
        place, key = _place(document, path)
        place[key] = value
    return document


def removed(document: Any, path: str) -> Any:
    """A copy without the value at a path."""
    document = copy.deepcopy(document)
    place, key = _place(document, path)
    del place[key]
    return document


def _place(document: Any, path: str) -> tuple[Any, str | int]:
    *inner, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in inner:
        document = document[step]
    return document, last
