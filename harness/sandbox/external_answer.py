"""The answer in the output of an external program: the last line that is a JSON list or object."""

from __future__ import annotations

from collections.abc import Callable

from harness.sandbox.protocol import ProtocolError, decode, lists_in

LINE_BYTES = 4 << 20  # largest answer in bytes: parsing a longer line would keep the monitor from its clock
LINE_LISTS = 1 << 17  # largest number of lists and objects in an answer, for the same reason


class AnswerParser:
    """Splits a program's output into lines, keeps the last answer and passes all other lines on as log.

    Lines that arrive after ``timeout_s`` seconds do not count; ``log`` is called with the bytes of all other lines.
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
        """End the output; return the arrival of the answer and the message a Python solver would have sent for it."""
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
        candidate = line.lstrip()[:1] in (b"[", b"{")
        if candidate and lists_in(line) > LINE_LISTS:
            self.fault = f"printed a line of more than {LINE_LISTS} lists, an answer has at most that"
            self.log(line + end)
        elif not candidate or not _is_message(message):
            self.log(line + end)
        elif self._arrival <= self.timeout_s:
            self._message = self._arrival, message


def _is_message(message: bytes) -> bool:
    try:
        decode(message)
    except ProtocolError:
        return False
    return True
