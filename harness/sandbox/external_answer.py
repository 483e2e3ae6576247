"""The answer among the lines that an external program prints: the last that is a JSON list or object."""

from __future__ import annotations

from collections.abc import Callable

from harness.sandbox.protocol import ProtocolError, decode, lists_in

#: Of an answer: bytes, and lists and objects. A line with more would keep the watcher from its clock.
LINE_BYTES, LINE_LISTS = 4 << 20, 1 << 17


class AnswerParser:
    """Cuts a program's output into lines, remembers the last answer among them and passes on the rest as log.

    ``timeout_s`` is the moment after which nothing counts; ``log`` gets the bytes of all other lines.
    """

    def __init__(self, timeout_s: float, log: Callable[[bytes], None]) -> None:
        self.timeout_s = timeout_s
        self.log = log
        self.fault: str | None = None
        self._message: tuple[float, bytes] | None = None
        self._line = bytearray()
        self._arrival = 0.0
        self._too_long = False

    def feed(self, data: bytes, arrival: float) -> None:
        """Take bytes that arrived ``arrival`` seconds after the start."""
        *ends, rest = data.split(b"\n")
        for end in ends:
            self._add(end, arrival)
            self._complete(b"\n")
        self._add(rest, arrival)

    def close(self) -> tuple[float, bytes] | None:
        """The output has ended: the answer as the message that a Python solver would have sent, and its arrival."""
        self._complete(b"")
        return self._message

    def _add(self, part: bytes, arrival: float) -> None:
        if not part:
            return
        self._arrival = arrival
        self._line += part
        if len(self._line) > LINE_BYTES or self._too_long:
            if self._line[:1] in (b"[", b"{") and not self._too_long:
                self.fault = f"printed a line of more than {LINE_BYTES >> 20} MiB, an answer has at most that"
            self._too_long = True
            self.log(bytes(self._line))
            self._line.clear()

    def _complete(self, end: bytes) -> None:
        line = bytes(self._line)
        self._line.clear()
        self._too_long = False
        message = b'["solution",' + line.strip() + b"]"
        like_one = line.lstrip()[:1] in (b"[", b"{")
        if like_one and lists_in(line) > LINE_LISTS:
            self.fault = f"printed a line of more than {LINE_LISTS} lists, an answer has at most that"
            self.log(line + end)
        elif not like_one or not _can_be_read(message):
            self.log(line + end)
        elif self._arrival <= self.timeout_s:
            self._message = self._arrival, message


def _can_be_read(message: bytes) -> bool:
    try:
        decode(message)
    except ProtocolError:
        return False
    return True
