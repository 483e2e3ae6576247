"""Messages from a run to the referee: JSON in frames that carry a length and a checksum.

A frame is the two bytes ``SM``, the payload's length and its CRC-32 (both unsigned 32-bit, big-endian), and
the payload: a JSON list ``[kind, value]``, or ``["solution", value, cost]`` with a cost that the solver claims for it
(or null). Kinds and their values:

``solution``  a solution of the track             ``declined``  text: why the solver does not take the instance
``bound``     a lower bound, a finite number      ``error``     text: the exception that ended the solver
``done``      the solver returned; a number: the greatest memory of its process in bytes
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from dataclasses import dataclass
from typing import Any, NoReturn

from instances.files.jsonfile import collector_paused

MAGIC = b"SM"
HEADER = struct.Struct(">2sII")
LARGEST = 1 << 30
KINDS = ("solution", "bound", "done", "declined", "error")


@dataclass(frozen=True)
class Message:
    """A decoded message; ``cost`` is what the sender of a solution claims for it."""

    kind: str
    value: Any
    cost: int | float | None = None


class ProtocolError(ValueError):
    """A frame or payload that breaks the protocol: a fault of the solver, told in one sentence."""


def plain(value: Any) -> Any:
    """JSON form of a NumPy array or scalar; TypeError for anything else that JSON does not know."""
    import numpy as np  # the process that watches runs needs none

    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not plain JSON")


def encode(kind: str, *values: Any) -> bytes:
    """One frame; TypeError or ValueError if a value is not plain JSON (NaN and infinities are not)."""
    payload = json.dumps([kind, *values], default=plain, allow_nan=False, separators=(",", ":")).encode()
    return HEADER.pack(MAGIC, len(payload), zlib.crc32(payload)) + payload


def decode(payload: bytes) -> Message:
    """The message of a payload, or ProtocolError; no text of the sender's is in the error."""
    try:
        with collector_paused():
            content = json.loads(payload, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise ProtocolError("a message was not JSON that can be read") from None
    match content:
        case ["solution", _] | ["solution", _, None]:
            return Message(*content)
        case ["solution", _, cost]:
            if is_number(cost):
                return Message(*content)
            raise ProtocolError("claimed a cost that is no finite number")
        case ["bound", value]:
            if is_number(value):
                return Message(*content)
            raise ProtocolError("reported a bound that is no finite number")
        case ["done", value] if is_number(value):
            return Message(*content)
        case ["declined" | "error", str()]:
            return Message(*content)
    raise ProtocolError("a message was not one of " + ", ".join(KINDS))


def lists_in(payload: bytes) -> int:
    """At least as many lists and objects as there are in a payload."""
    return payload.count(b"[") + payload.count(b"{")


def values_in(payload: bytes) -> int:
    """At least as many values and keys as there are in a payload."""
    return lists_in(payload) + payload.count(b",") + payload.count(b":")


def is_number(value: Any) -> bool:
    """Whether a JSON value is a number within the range of float64."""
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _refuse(name: str) -> NoReturn:
    """Called by the parser for NaN and infinities, which are not JSON."""
    raise ValueError(name)


class FrameDecoder:
    """Cuts a byte stream into payloads; after a fault everything that follows is ignored."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.fault: str | None = None

    def feed(self, data: bytes) -> list[bytes]:
        """Add bytes from the pipe and return the payloads that are complete now."""
        if self.fault:
            return []
        self._buffer += data
        payloads = []
        while len(self._buffer) >= HEADER.size:
            magic, length, checksum = HEADER.unpack_from(self._buffer)
            if magic != MAGIC or length > LARGEST:
                self._fail("wrote bytes that are no message into the referee's pipe")
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
        """The stream has ended: half a message is a fault."""
        if self._buffer and not self.fault:
            self._fail("stopped in the middle of a message")

    def _fail(self, fault: str) -> None:
        self.fault = fault
        self._buffer.clear()
