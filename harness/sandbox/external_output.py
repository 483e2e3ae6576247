"""The standard output of an external program: a line per solution or bound as it is found, and the contest's answer.

A line is a report if it is a JSON object that begins with the key "solution" or "bound": ``{"solution": [0, 2, 1]}``,
``{"solution": [0, 2, 1], "cost": 17}`` (the cost that the program claims, which may also come first) or
``{"bound": 12.5}``. The answer is the last other line that is a JSON list or object. All other lines are log.

A carriage return ends a line as well: programs show progress with it. A byte order mark and the codes of terminals,
such as colours, are left out of reports and answers. Text in UTF-16 or UTF-32 is a fault.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

from shardmark.harness.sandbox.protocol import PRINTED, ProtocolError, decode, lists_in

LINE_BYTES = 4 << 20  # largest report or answer in bytes: parsing a longer line would keep the monitor from its clock
LINE_LISTS = 1 << 17  # largest number of lists and objects in an answer, for the same reason
#: A code of terminals: a control sequence, or the title of a window.
CODE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


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
        self._ends_twice = False  # the last line ended with a carriage return and is no log: nor is a line feed next

    def feed(self, data: bytes, arrival: float) -> None:
        """Take bytes that arrived ``arrival`` seconds after the start."""
        if self._ends_twice:
            data = data.removeprefix(b"\n")
            self._ends_twice = False
        for line in data.splitlines(keepends=True):  # which splits bytes at line feeds and carriage returns only
            text = line.rstrip(b"\r\n")
            self._add(text, arrival)
            end = line[len(text) :]
            self._ends_twice = bool(end) and not self._complete(end) and end == b"\r"

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

    def _complete(self, end: bytes) -> bool:
        """Take the line that has ended; return True if it is log."""
        printed = bytes(self._line)
        self._line.clear()
        self._too_long = False
        if b"[" not in printed and b"{" not in printed:  # a quick end for most lines, as a flood may come
            self.log(printed + end)
            return True
        line = CODE.sub(b"", printed).removeprefix(codecs.BOM_UTF8).strip()
        if PRINTED.match(line):  # not parsed here: a program may print any number, and most are never read
            self.report(self._arrival, line)
            return False
        if self._is_answer(line):
            if self._arrival <= self.timeout_s:
                self._message = self._arrival, _message(line)
            return False
        if _is_utf_16(printed):
            self.fault = "printed a solution or bound in UTF-16 or UTF-32, expected UTF-8"
        self.log(printed + end)
        return True

    def _is_answer(self, line: bytes) -> bool:
        """Return True for a JSON list or object; one with too many lists is a fault."""
        if line[:1] not in (b"[", b"{"):
            return False
        if lists_in(line) > LINE_LISTS:
            self.fault = f"printed a line of more than {LINE_LISTS} lists, the limit for an answer"
            return False
        try:
            decode(_message(line))
        except ProtocolError:
            return False
        return True


def _message(line: bytes) -> bytes:
    """Return the message that a Python solver would have sent for an answer."""
    return b'["solution",' + line + b"]"


def _is_utf_16(line: bytes) -> bool:
    """Return True for a list or object in UTF-16 or UTF-32, of which at least every second byte is zero."""
    return line.lstrip(b"\xff\xfe\0 \t")[:1] in (b"[", b"{") and 3 * line.count(b"\0") > len(line)
