"""The link between a supervisor and its client: messages on a socket, and news of a run that is under way.

A message is the length of a JSON header (unsigned 32-bit, big-endian), the header, and the payloads whose sizes it
lists.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from shardmark.harness.sandbox.contract import Cancelled
from shardmark.harness.sandbox.protocol import kind_of

LENGTH = struct.Struct(">I")


class Watch(Protocol):
    """A client's view of a run that is under way; its methods are called in turn, by the thread that waits."""

    def take(self, news: Sequence[tuple[float, bytes]]) -> None:
        """Take the newest solution and bound as (seconds since the start, payload)."""

    def tick(self) -> tuple[bool, str]:
        """Return True to ask for news, and a sentence to end the run with, or ""; called ten times a second."""


def send(link: socket.socket, header: Mapping[str, Any], payloads: Sequence[bytes] = ()) -> None:
    """Write one message."""
    link.sendall(_head(header, payloads))
    for payload in payloads:
        link.sendall(payload)


def _head(header: Mapping[str, Any], payloads: Sequence[bytes]) -> bytes:
    """Return what a message has before its payloads."""
    text = json.dumps({**header, "sizes": [len(payload) for payload in payloads]}).encode()
    return LENGTH.pack(len(text)) + text


def receive(link: socket.socket) -> tuple[dict[str, Any], list[bytes]]:
    """Read one message: its header and payloads; EOFError if the other side has closed the socket."""
    header = json.loads(_exactly(link, LENGTH.unpack(_exactly(link, LENGTH.size))[0]))
    return header, [_exactly(link, size) for size in header.pop("sizes")]


def _exactly(link: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = link.recv(min(size - len(data), 1 << 20))
        if not part:
            raise EOFError("connection closed")
        data += part
    return bytes(data)


class Relay:
    """The supervisor's end of the link during a run: sends news that the client asks for, and takes its requests.

    It never waits for the client, because the run's clock goes on: until the client asks, a newer solution or bound
    replaces the one before.
    """

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.asked = False
        self.news: dict[bytes, tuple[float, bytes]] = {}
        self.unsent = memoryview(b"")

    def offer(self, arrival: float, payload: bytes) -> None:
        """Keep a message of the run for the client if it is a solution or a bound."""
        if kind := kind_of(payload):
            self.news[kind] = arrival, payload

    @property
    def waiting(self) -> bool:
        """True if there is anything to send."""
        return bool(self.unsent) or (self.asked and bool(self.news))

    def flush(self) -> None:
        """Send as much as the socket takes at once."""
        if not self.unsent and self.asked and self.news:
            arrivals, payloads = zip(*self.news.values(), strict=True)
            self.unsent = memoryview(_head({"news": arrivals}, payloads) + b"".join(payloads))
            self.asked, self.news = False, {}
        with contextlib.suppress(BlockingIOError):
            while self.unsent:
                self.unsent = self.unsent[self.link.send(self.unsent, socket.MSG_DONTWAIT) :]

    def finish(self) -> None:
        """Send the rest of a message that was begun, and begin no other."""
        self.link.sendall(self.unsent)
        self.unsent, self.asked = memoryview(b""), False

    def request(self) -> str:
        """Take one request of the client; return the sentence to end the run with, or "". Cancelled if it has gone."""
        try:
            header, _ = receive(self.link)
        except (EOFError, OSError):
            raise Cancelled from None
        self.asked = self.asked or "news" in header
        return str(header.get("halt", ""))
