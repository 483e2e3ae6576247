"""Withdrawal of bounds that turned out to be untrustworthy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

from shardmark.harness.records import history
from shardmark.harness.records.best import BestKnown, unlocked
from shardmark.harness.records.history import Improvement, Withdrawal
from shardmark.harness.results.database import storable
from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import require_writable


def withdraw(
    folder: Path,
    method: str,
    reason: str,
    by: str,
    versions: Collection[str] = (),
    choose: Callable[[Sequence[BestKnown]], Sequence[BestKnown]] = lambda records: records,
) -> list[Withdrawal]:
    """Withdraw the bounds of a method in the chosen records, of some versions or of all, in one step.

    InputError if there is none, or without a reason.
    """
    if not reason.strip():
        raise InputError("--reason", "", "expected a sentence")
    with history.locked(folder, write=True):
        require_writable(folder / history.FILE_NAME)
        standing = [line for record in choose(unlocked(folder)) for line in record.history if _stands(line)]
        lines = [line for line in standing if line.method == method and (not versions or line.version in versions)]
        if not lines:
            raise InputError(folder / history.FILE_NAME, "", _expected(method, versions, standing))
        today = datetime.now(UTC).date().isoformat()
        end = storable(" ".join(reason.split())), today, storable(by)
        new = [Withdrawal(line.instance, "withdrawn", line.value, method, line.version, *end) for line in lines]
        new = list(dict.fromkeys(new))  # one for equal lines
        history.append(folder, new)
    return new


def _stands(line: Improvement) -> bool:
    return line.kind == "bound" and not line.withdrawn


def _expected(method: str, versions: Collection[str], standing: Sequence[Improvement]) -> str:
    """Say which bounds could be withdrawn instead."""
    ours = sorted({line.version for line in standing if line.method == method})
    if ours:
        return f"expected a version of {method} with bounds, one of {', '.join(ours)}, found {', '.join(versions)}"
    others = ", ".join(sorted({line.method for line in standing})) or "none"
    return f"expected a method that still has bounds on the chosen instances: {others}; found {method!r}"
