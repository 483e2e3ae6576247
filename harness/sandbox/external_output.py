"""The standard output of an external program: a line per solution or bound as it is found, and the contest's answer.

A line is a report if it is a JSON object that begins with the key "solution" or "bound": ``{"solution": [0, 2, 1]}``,
``{"solution": [0, 2, 1], "cost": 17}`` (the cost that the program claims, which may also come first) or
``{"bound": 12.5}``. The answer is the last other line that is a JSON list or object. All other lines are log.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.sandbox.protocol import PRINTED, ProtocolError, decode, lists_in

LINE_BYTES = 4 << 20  # largest report or answer in bytes: parsing a longer line would keep the monitor from its clock
LINE_LISTS = 1 << 17  # largest number of lists and objects in an answer, for the same reason


class OutputParser:
    """Splits a program's output into lines, passes on reports and log, and keeps the last answer.

    Lines that arrive after ``timeout_s`` seconds do not count. ``report`` is called with the arrival of each report, in
    seconds since the start, and its JSON object; ``log`` with the bytes of all lines that are neither.
    """

    def __init__(self, timeout_s: float, report: Callable[[float, bytes], None], log: Callable[[bytes], None]) -> None:
        self.timeout_s = timeout_s
        self.report = report
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
                self.fault = f"printed a line of more than {LINE_BYTES >> 20} MiB, the limit for a solution"
            self._too_long = True
            self.log(bytes(self._line))
            self._line.clear()

    def _complete(self, end: bytes) -> None:
        line = bytes(self._line)
        self._line.clear()
        self._too_long = False
        if PRINTED.match(line):  # not parsed here: a program may print any number, and most are never read
            self.report(self._arrival, line.strip())
            return
        message = b'["solution",' + line.strip() + b"]"
        candidate = line.lstrip()[:1] in (b"[", b"{")
        if candidate and lists_in(line) > LINE_LISTS:
            self.fault = f"printed a line of more than {LINE_LISTS} lists, the limit for an answer"
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
