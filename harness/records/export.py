"""The records for other programs: CSV, JSON, and the lines of MIPLIB's .solu files.

In CSV and JSON a cost or bound is a float to compute with, and the key that ends in ``_exact`` has its exact text.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shardmark.harness.records import certificates
from shardmark.harness.records.best import BestKnown
from shardmark.harness.records.history import Improvement, keys_of
from shardmark.harness.records.solutions import name_of

_RUN = ("method", "version", "seed", "timeout_s", "memory_mib", "cores", "wall_s", "machine", "date", "by")


def as_csv(records: Sequence[BestKnown]) -> str:
    """Return a row per instance; a missing value is an empty field."""
    rows = [_flat(record) for record in records]
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0] if rows else (), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(record: BestKnown) -> dict[str, Any]:
    return {
        "track": record.entry.track,
        "instance": record.entry.id,
        "status": record.status,
        **_number("cost", record.cost.value if record.cost else None),
        **_number("bound", record.bound.value if record.bound else None),
        "grade": certificates.grade(record) or None,
        "gap": record.gap,
        **{f"published_{key}": value for key, value in _published(record).items()},
        **_run("cost", record.cost),
        **_run("bound", record.bound),
        "solution": name_of(record.cost) if record.cost else None,
        "solution_sha256": record.cost.solution if record.cost else None,
        "certificate": certificates.name_of(record.bound) if record.bound and record.bound.certificate else None,
        "checksum": record.checksum or None,
    }


def _number(key: str, text: str | None) -> dict[str, Any]:
    """Return a decimal text as a float under a key, and as it is under the key of exact texts."""
    return {key: None if text is None else float(text), f"{key}_exact": text}


def _published(record: BestKnown) -> dict[str, Any]:
    """Return the published cost and bound of an instance, and their sources; None for what was not published."""
    facts = record.entry.published
    return {
        **_number("best_cost", facts.get("best_cost")),
        "best_cost_source": facts.get("best_cost_source"),
        **_number("lower_bound", facts.get("lower_bound")),
        "lower_bound_source": facts.get("lower_bound_source"),
    }


def _run(kind: str, improvement: Improvement | None) -> dict[str, Any]:
    return {f"{kind}_{key}": getattr(improvement, key) if improvement else None for key in _RUN}


def as_json(records: Sequence[BestKnown]) -> str:
    """Return a list with an object per instance, its history included.

    JSON has no number for a gap beyond float64: it is null, as without a bound, and the values tell the two apart.
    """
    documents = [_document(record) for record in records]
    return json.dumps(documents, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _document(record: BestKnown) -> dict[str, Any]:
    return {
        "track": record.entry.track,
        "instance": record.entry.id,
        "options": dict(record.entry.options),
        "checksum": record.checksum or None,
        "status": record.status,
        "grade": certificates.grade(record) or None,
        "gap": record.gap if record.gap is not None and math.isfinite(record.gap) else None,
        "cost": _improvement(record.cost),
        "bound": _improvement(record.bound),
        "published": _published(record),
        "history": [_improvement(line) for line in record.history],
    }


def _improvement(improvement: Improvement | None) -> dict[str, Any] | None:
    if improvement is None:
        return None
    shown = {key: value for key, value in keys_of(improvement).items() if key not in ("instance", "checksum")}
    why = improvement.withdrawn
    return {
        **shown,
        **_number("value", improvement.value),
        "file": _file(improvement),
        "withdrawn": why and {"date": why.date, "reason": why.reason, "by": why.by},
    }


def _file(improvement: Improvement) -> str | None:
    """Return the path within the records of the solution of a cost, or of the certificate of a bound."""
    if improvement.solution:
        return name_of(improvement)
    return certificates.name_of(improvement) if improvement.certificate else None


def as_solu(records: Sequence[BestKnown]) -> str:
    """Return the lines of a .solu file: ``=opt=`` proven optimal, ``=best=`` best known, ``=unkn=`` no solution known.

    No instance of the catalog is known to have no solution, for which the format has ``=inf=``.
    """
    return "".join(f"{line}\n" for line in _solu(records))


def _solu(records: Sequence[BestKnown]) -> Iterator[str]:
    for record in records:
        if record.cost is None:
            yield f"=unkn= {record.entry.id}"
        else:
            yield f"={'opt' if record.status == 'optimal' else 'best'}= {record.entry.id} {record.cost.value}"


#: Exports by the ending of their files.
FORMATS: Mapping[str, Callable[[Sequence[BestKnown]], str]] = {"csv": as_csv, "json": as_json, "solu": as_solu}
