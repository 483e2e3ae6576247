"""Records of runs as the database holds them, and exact decimal text of their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from shardmark.instances.files.jsonfile import packed

#: Bytes of a certificate's file that is stored with its run or kept in the records; of a larger one, only the findings.
LARGEST_CERTIFICATE = 1 << 20


@dataclass(frozen=True)
class Incumbent:
    """A reported solution after verification; ``cost`` None if it was malformed."""

    time_s: float
    feasible: bool
    cost: int | float | None


@dataclass(frozen=True)
class Bound:
    """A reported lower bound."""

    time_s: float
    value: int | float


@dataclass(frozen=True)
class Certificate:
    """The last certificate that a run sent, and what the referee found when it checked it.

    ``document``  the certificate, plain JSON, whose ``bound`` is what it claims
    ``proven``    the greatest bound that it proves, rounded down to float64 unless whole; None if its proof fails
    ``check_s``   seconds that the check took     ``reason``  a sentence if it does not prove its bound; else empty
    """

    document: Mapping[str, Any]
    proven: int | float | None
    check_s: float
    reason: str

    @cached_property
    def content(self) -> bytes:
        """The certificate as a file, `*.cert.json.gz`."""
        return packed(self.document)


@dataclass(frozen=True)
class Record:
    """One run as it is stored; the fields are documented in `shardmark.harness.results.schema`."""

    id: str
    track: str
    instance: str
    checksum: str
    solver: str
    kind: str
    solver_hash: str
    seed: int
    timeout_s: float
    memory_mib: float
    cores: int
    started: str
    stop: str
    status: str
    reason: str
    cost: int | float | None
    lower_bound: int | float | None
    wall_s: float
    cpu_s: float
    peak_mib: float
    solution: Any = None
    log: str = ""
    cpu_limit_s: float | None = None
    processes: int | None = None
    output_mib: float | None = None
    backend: str | None = None
    enforced: Mapping[str, str] | None = None
    co_runners: int | None = None
    host: str = ""
    claimed: Mapping[str, Any] | None = None
    verified: str | None = None
    incumbents: Sequence[Incumbent] = field(default=())
    bounds: Sequence[Bound] = field(default=())
    certificate: Certificate | None = field(default=None, compare=False)


def decimal(value: int | float | None) -> str | None:
    """Return the exact decimal text of a cost: all digits of an int, the shortest text that reads back for a float."""
    return None if value is None else repr(value)


def number(text: str) -> int | float:
    """Return the number of a decimal text: an int if it is written as one, else a float."""
    return int(text) if text.lstrip("-").isdigit() else float(text)


def as_float(value: int | float | None) -> float | None:
    """Return the cost as float64, for arithmetic that need not be exact."""
    return None if value is None else float(value)
