"""Certificates of lower bounds, checked in exact arithmetic against the instance alone; imports nothing from solvers.

A certificate is a JSON object with the keys ``format`` (`FORMAT`), ``track``, ``instance`` (the checksum of content and
options), ``bound`` and ``proof``, an object with a ``kind``. Each track has one module with ``PROOFS``, which maps the
kinds to functions ``prove(instance, proof, clock) -> int | Fraction`` that return the greatest bound that a proof
proves, or raise `Unproven`. Integers are exact, and a number with a point is the float64 that it is read as.
"""

from __future__ import annotations

import importlib
import math
import os
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shardmark.instances import InputError
from shardmark.instances.files.columns import describe
from shardmark.instances.files.jsonfile import read_json, require_keys

FORMAT = "shardmark/certificate/1"
LARGEST = 64 << 20  # bytes of a certificate, decompressed
LARGEST_NUMBER = 1 << 1100  # a greater number of a proof is refused
TIME_S = 600.0  # seconds that a check may take
MEMORY = 2 << 30  # bytes by which a check may raise the greatest memory of the process
TICKS = 32  # of so many ticks of a clock, one looks at the memory

Exact = int | Fraction


class Unproven(Exception):
    """A proof has another form, or one of its steps does not hold; the text is a sentence that names the place."""


class Clock:
    """Ends a check at its limits on time and memory."""

    def __init__(self, seconds: float, memory: int = MEMORY) -> None:
        self.seconds, self.memory = seconds, memory
        self._end, self._most, self._ticks = time.monotonic() + seconds, greatest_memory() + memory, 0

    def tick(self) -> None:
        """Raise Unproven beyond a limit; checks call it in every loop that a certificate or an instance makes long."""
        if time.monotonic() > self._end:
            raise Unproven(f"expected a check of at most {self.seconds:g} s")
        self._ticks += 1
        if self._ticks % TICKS == 0 and greatest_memory() > self._most:
            raise Unproven(f"expected a check within {self.memory >> 20} MiB")


def greatest_memory() -> int:
    """Return the most bytes of memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclass(frozen=True)
class Finding:
    """What a certificate proves.

    ``claimed``  its bound      ``proven``  the greatest bound that its proof proves; None if the proof does not hold
    ``reason``   a sentence if the bound is not proven; else empty
    """

    claimed: int | float
    proven: Exact | None
    reason: str

    @property
    def holds(self) -> bool:
        """True if the bound is proven."""
        return not self.reason

    @property
    def proven_number(self) -> int | float | None:
        """``proven`` as a JSON number: an int if it is whole, else rounded down to float64."""
        if self.proven is None:
            return None
        return int(self.proven) if self.proven.denominator == 1 else rounded_down(self.proven)


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a certificate, gzip or not; InputError if the file is none."""
    return require(read_json(path, LARGEST), os.fspath(path))


def require(document: Any, source: str) -> dict[str, Any]:
    """Return the document if it has the form of a certificate, whatever its proof; InputError otherwise."""
    require_keys(document, source, "", ("format", "track", "instance", "bound", "proof"))
    if document["format"] != FORMAT:
        raise InputError(source, "format", f"expected {FORMAT!r}, found {describe(document['format'])}")
    for key in ("track", "instance"):
        if not isinstance(document[key], str):
            raise InputError(source, key, f"expected a text, found {describe(document[key])}")
    if type(document["bound"]) is not int and not (
        type(document["bound"]) is float and math.isfinite(document["bound"])
    ):
        raise InputError(source, "bound", f"expected a number, found {describe(document['bound'])}")
    if not isinstance(document["proof"], dict):
        raise InputError(source, "proof", f"expected an object, found {describe(document['proof'])}")
    return dict(document)


def check(instance: Any, checksum: str, document: Mapping[str, Any], seconds: float = TIME_S) -> Finding:
    """Check a certificate, which has the form of one, for an instance with this checksum."""
    claimed = document["bound"]
    if (document["track"], document["instance"]) != (instance.track, checksum):
        return Finding(claimed, None, f"expected a certificate for this instance and its options ({checksum[:12]})")
    proofs = importlib.import_module(f"{__name__}.{instance.track}").PROOFS
    kind = document["proof"].get("kind")
    if not isinstance(kind, str) or kind not in proofs:
        words = f"proof.kind: expected one of {', '.join(sorted(proofs))}, found {describe(kind)}"
        return Finding(claimed, None, words)
    try:
        proven = proofs[kind](instance, document["proof"], Clock(seconds))
    except Unproven as error:
        return Finding(claimed, None, str(error))
    if Fraction(claimed) > proven:
        return Finding(claimed, proven, f"claims {describe(claimed)}, but proves only {shown(proven)}")
    return Finding(claimed, proven, "")


def shown(value: Exact) -> str:
    """Return a bound as text: all digits of an integer, else the greatest float64 that is not above it."""
    if Fraction(value).denominator == 1:
        return str(int(value))
    return repr(rounded_down(value))


def rounded_down(value: Exact) -> float:
    """Return the greatest float64 that is not above a bound."""
    try:
        near = float(value)
    except OverflowError:
        return math.copysign(math.inf, value) if value < 0 else math.nextafter(math.inf, 0)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)


def integers(proof: Mapping[str, Any], key: str, most: int, length: int | None = None) -> list[int]:
    """Return a list of integers of a proof, each at most ``most`` in absolute value; Unproven for anything else."""
    values = proof.get(key)
    if not isinstance(values, list) or (length is not None and len(values) != length):
        expected = "a list" if length is None else f"a list of {length} integers"
        found = f"{len(values)}" if isinstance(values, list) else describe(values)
        raise Unproven(f"proof.{key}: expected {expected}, found {found}")
    for at, value in enumerate(values):
        if type(value) is not int or not -most <= value <= most:
            raise Unproven(f"proof.{key}[{at}]: expected an integer from {-most} to {most}, found {describe(value)}")
    return values


def integer(proof: Mapping[str, Any], key: str, least: int, most: int) -> int:
    """Return an integer of a proof within a range, 0 if it has none of that name; Unproven for anything else."""
    value = proof.get(key, 0)
    if type(value) is not int or not least <= value <= most:
        raise Unproven(f"proof.{key}: expected an integer from {least} to {most}, found {describe(value)}")
    return value


def fraction(proof: Mapping[str, Any], key: str, default: int = 0) -> Fraction:
    """Return a number of a proof as a fraction, ``default`` if it has none of that name; Unproven for anything else."""
    value = proof.get(key, default)
    if type(value) not in (int, float) or not abs(value) <= LARGEST_NUMBER:
        raise Unproven(f"proof.{key}: expected a number, found {describe(value)}")
    return Fraction(value)
