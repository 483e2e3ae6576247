"""Solutions of records: gzipped JSON as `shardmark check` reads it, in files named by instance and content."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shardmark.harness.records.history import Improvement
from shardmark.harness.verify import longest_solution
from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import decode, encode, parse_json, read_bytes, sha256, write_json

FOLDER_NAME = "solutions"
DIGITS = 12  # of the SHA-256, in the name of a file


def digest(solution: Any) -> str:
    """Return the SHA-256 of a solution as compact JSON, the content of its file."""
    return sha256(encode(solution))


def name_of(improvement: Improvement) -> str:
    """Return the path of an improvement's solution within the folder of records."""
    return f"{FOLDER_NAME}/{improvement.instance}-{improvement.solution[:DIGITS]}.json.gz"


def write(folder: Path, improvement: Improvement, solution: Any) -> None:
    """Write the solution of an improvement to a file named by its content."""
    path = folder / name_of(improvement)
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise InputError(path.parent, "", f"expected a folder that can be written ({error.strerror})") from None
    write_json(path, solution)


def read(folder: Path, improvement: Improvement, instance: Any) -> Any:
    """Return the solution of an improvement; InputError if its file is missing or has another content."""
    path = folder / name_of(improvement)
    content = read_bytes(path, longest_solution(instance))
    if (found := sha256(content)) != improvement.solution:
        raise InputError(path, "checksum", f"expected sha256 {improvement.solution}, found {found}")
    return parse_json(decode(content, path), path)


def keep_only(folder: Path, improvements: Iterable[Improvement]) -> None:
    """Remove files of solutions that are no longer the best, and files left by an update that was killed."""
    kept = {folder / name_of(improvement) for improvement in improvements}
    for path in (folder / FOLDER_NAME).glob("*.json.gz*"):  # with temporary files
        if path not in kept:
            path.unlink()
