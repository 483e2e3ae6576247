"""Watch a run on a terminal: show its progress; on Ctrl-C, end it and keep what it has found."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from shardmark.cli.terminal import cell_text, duration, printable
from shardmark.leaderboard.text import percent

if TYPE_CHECKING:
    from shardmark.live import Progress

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = "interrupted"


class Watching:
    """Shows the progress of a run on a line of the terminal, and ends the run at the first signal.

    ``signal`` is the number of that signal, 0 if there was none. Without a terminal, or if quiet, no line is shown.
    Signals before the run begins end the command.
    """

    def __init__(self, quiet: bool) -> None:
        self.signal = 0
        self.before: dict[int, Any] = {}  # handlers of signals before the run
        self.line = not quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __call__(self, progress: Progress) -> str | None:
        """Show the progress; return the reason to end the run, if there is one."""
        if not self.before and threading.current_thread() is threading.main_thread():
            handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # as under nohup
            self.before = {number: signal.signal(number, self.interrupt) for number in handled}
        if self.line:
            columns = 0
            with suppress(OSError):
                columns = os.get_terminal_size(sys.stderr.fileno()).columns
            self._write(f"\r{printable(words(progress))[: (columns or 80) - 1]}\x1b[K")
        return INTERRUPTED if self.signal else None

    def close(self) -> None:
        """Clear the line, and restore the earlier signal handlers."""
        if self.line:
            self._write("\r\x1b[K")
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def interrupt(self, number: int, _: object) -> None:
        """Note a signal; raise KeyboardInterrupt at the second."""
        if self.signal:
            raise KeyboardInterrupt(number)
        self.signal = number

    def status(self, status: int) -> int:
        """Return the exit status of a command: that of the signal if there was one, else the command's own."""
        return 128 + self.signal if self.signal else status

    def _write(self, words: str) -> None:
        with suppress(OSError):  # the terminal has gone
            sys.stderr.write(words)
            sys.stderr.flush()


def words(progress: Progress) -> str:
    """Return the progress in words."""
    parts = [f"{duration(progress.elapsed_s)} of {duration(progress.timeout_s)}"]
    if progress.cost is None:
        parts.append("no solution yet")
    else:
        parts.append(f"cost {cell_text('cost', progress.cost)} after {progress.found_s or 0.0:.1f} s")
    if progress.gap == 0:
        return ", ".join([*parts, "proven optimal"])
    if progress.lower_bound is not None:
        parts.append(f"bound {cell_text('bound', progress.lower_bound)}")
    if progress.gap is not None:
        parts.append(f"gap {percent(progress.gap)}")
    return ", ".join(parts)


@contextmanager
def watching(*, quiet: bool = False) -> Iterator[Watching]:
    """Watch a run: signals that would end this process end the run instead."""
    found = Watching(quiet)
    try:
        yield found
    finally:
        found.close()
