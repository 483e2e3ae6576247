"""Options: what else a track's instances can be read with, and an importer's files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Option:
    """Values of ``kind``, one of ``choices`` if there are any; ``default`` where none is given."""

    kind: type
    meaning: str
    default: Any = None
    choices: tuple[str, ...] = ()
