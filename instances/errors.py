"""The exceptions for input that a user can mend."""

from __future__ import annotations

import os


class InputError(ValueError):
    """Bad input, told in one sentence: which file, which place in it, and what was expected there.

    The command line prints the sentence and exits with status 2; it never shows a traceback for it.
    """

    def __init__(self, source: str | os.PathLike[str], place: str, expected: str) -> None:
        self.source = os.fspath(source)
        self.place = place
        self.expected = expected
        where = f"{self.source}: {place}" if place else self.source
        super().__init__(f"{where}: {expected}")


class TooLarge(InputError):
    """A file with more bytes or parts than any reader takes: no other reader need try."""
