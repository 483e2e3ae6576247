"""Solutions of records: gzipped JSON as `shardmark check` reads it, in files named by instance and content."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shardmark.harness.records import files
from shardmark.harness.records.history import Improvement
from shardmark.harness.verify import longest_solution

FOLDER_NAME = "solutions"


def name_of(improvement: Improvement) -> str:
    """Return the path of an improvement's solution within the folder of records."""
    return f"{FOLDER_NAME}/{improvement.instance}-{improvement.solution[: files.DIGITS]}.json.gz"


def read(folder: Path, improvement: Improvement, instance: Any) -> Any:
    """Return the solution of an improvement; InputError if its file is missing or has another content."""
    return files.read(folder / name_of(improvement), improvement.solution, longest_solution(instance))


def keep_only(folder: Path, improvements: Iterable[Improvement]) -> None:
    """Remove files of solutions that are no longer the best."""
    files.keep_only(folder / FOLDER_NAME, (folder / name_of(improvement) for improvement in improvements))
