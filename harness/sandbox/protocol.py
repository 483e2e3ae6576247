"""Messages from a run to the referee: JSON in frames that carry a length and a checksum.

A frame is the two bytes ``SM``, the payload's length and its CRC-32 (both unsigned 32-bit, big-endian), and
the payload: a JSON list ``[kind, value]``, or ``["solution", value, cost]`` with the cost that the solver claims for it
(or null), or ``["certificate", bound, proof]``. Kinds and their values:

``solution``  a solution of the track             ``declined``  text: why the solver does not take the instance
``bound``     a lower bound, a finite number      ``error``     text: the exception that ended the solver
``done``      the solver has returned; a number: the peak memory of its process in bytes

The first message of a worker is `BEGUN`: the instance has been read and the solver is called. The monitor records only
its time of arrival.

An external program prints solutions and bounds as objects, see `shardmark.harness.sandbox.external_output`.
"""

from __future__ import annotations

import json
import re
import struct
import sys
import zlib
from dataclasses import dataclass
from typing import Any, NoReturn

from shardmark.instances.files.jsonfile import collector_paused, plain

MAGIC = b"SM"
HEADER = struct.Struct(">2sII")
MAX_PAYLOAD = 1 << 30  # largest payload in bytes
BEGUN = b'["begun"]'
KINDS = ("solution", "bound", "certificate", "done", "declined", "error")
#: Beginning of a certificate; the referee checks it once the run has ended, if at all.
CERTIFICATE = b'["certificate",'
#: Beginning of a solution or bound as a worker sends it, and as an external program prints it; with single quotes, as
#: Python prints a dict, it is no JSON, which the referee then says.
SENT = re.compile(rb'\["(solution|bound)",')
PRINTED = re.compile(rb'\s*\{\s*(?:["\']cost["\']\s*:[^]["{},]*,\s*)?["\'](solution|bound)["\']\s*:')


@dataclass(frozen=True)
class Message:
    """A decoded message; ``cost`` is the one that the sender of a solution claims for it, or a certificate's bound."""

    kind: str
    value: Any
    cost: int | float | None = None


class ProtocolError(ValueError):
    """A frame or payload breaks the protocol; the text is a sentence about the solver's fault."""


def encode(kind: str, *values: Any) -> bytes:
    """Return one frame; TypeError or ValueError if a value is not plain JSON (NaN and infinities are not)."""
    payload = json.dumps([kind, *values], default=plain, allow_nan=False, separators=(",", ":")).encode()
    return HEADER.pack(MAGIC, len(payload), zlib.crc32(payload)) + payload


def decode(payload: bytes) -> Message:
    """Return the message of a payload; ProtocolError, which quotes no text of the sender, if it is malformed."""
    try:
        with collector_paused():
            content = json.loads(payload, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise ProtocolError("a message was not valid JSON") from None
    if isinstance(content, dict):
        content = _printed(content)
    match content:
        case ["solution", _] | ["solution", _, None] | ["declined" | "error", str()]:
            return Message(*content)
        case ["solution", _, number] | ["bound" | "done", number] if is_number(number):
            return Message(*content)
        case ["solution", _, _]:
            raise ProtocolError("claimed a cost that is not a finite number")
        case ["bound", _]:
            raise ProtocolError("reported a bound that is not a finite number")
        case ["certificate", number, dict() as proof] if is_number(number):
            return Message("certificate", proof, number)
    raise ProtocolError("a message was not one of " + ", ".join(KINDS))


def _printed(report: dict[str, Any]) -> list[Any]:
    """Return the message of a line that an external program printed."""
    if report.keys() == {"bound"}:
        return ["bound", report["bound"]]
    if {"solution"} <= report.keys() <= {"solution", "cost"}:
        return ["solution", report["solution"], report.get("cost")]
    raise ProtocolError('a message was not an object with "solution" and optionally "cost", or with only "bound"')


def kind_of(payload: bytes) -> bytes:
    """Return b"solution" or b"bound" if a message begins as one does, b"" otherwise; nothing is parsed."""
    found = SENT.match(payload) or PRINTED.match(payload)
    return found[1] if found else b""


def lists_in(payload: bytes) -> int:
    """Return an upper bound on the number of lists and objects in a payload."""
    return payload.count(b"[") + payload.count(b"{")


def values_in(payload: bytes) -> int:
    """Return an upper bound on the number of values and keys in a payload."""
    return lists_in(payload) + payload.count(b",") + payload.count(b":")


def is_number(value: Any) -> bool:
    """Return True if a JSON value is a number within the range of float64."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _refuse(name: str) -> NoReturn:
    """Raise ValueError; the parser calls this for NaN and infinities, which are not JSON."""
    raise ValueError(name)


class FrameDecoder:
    """Splits a byte stream into payloads; everything after a fault is ignored."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.fault: str | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes from the pipe; return the payloads that are now complete."""
        if self.fault:
            return []
        self._buffer += data
        payloads = []
        while len(self._buffer) >= HEADER.size:
            magic, length, checksum = HEADER.unpack_from(self._buffer)
            if magic != MAGIC or length > MAX_PAYLOAD:
                self._fail("wrote bytes that are not a message into the referee's pipe")
                break
            if len(self._buffer) < HEADER.size + length:
                break
            payload = bytes(self._buffer[HEADER.size : HEADER.size + length])
            del self._buffer[: HEADER.size + length]
            if zlib.crc32(payload) != checksum:
                self._fail("sent a message whose checksum is wrong")
                break
            payloads.append(payload)
        return payloads

    def close(self) -> None:
        """End the stream; an incomplete message is a fault."""
        if self._buffer and not self.fault:
            self._fail("stopped in the middle of a message")

    def _fail(self, fault: str) -> None:
        self.fault = fault
        self._buffer.clear()
