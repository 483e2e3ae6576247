"""Modules that are imported once they are used: every process collects all tests, and few run those of JAX."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Deferred:
    """Stands for a module; its first attribute imports it, other than those that pytest asks of everything."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        return getattr(import_module(self._name), attribute)
