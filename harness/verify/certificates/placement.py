"""Proofs for ``placement``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PROOFS: dict[str, Callable[..., Any]] = {}
