"""Exceptions for input that a user can correct."""

from __future__ import annotations

import os


class InputError(ValueError):
    """Bad input, described in one sentence: the file, the place in it, and the expectation there.

    The command line prints the sentence and exits with status 2; it never shows a traceback for it.
    """

    def __init__(self, source: str | os.PathLike[str], place: str, expected: str) -> None:
        self.source = os.fspath(source)
        self.place = place
        self.expected = expected
        where = f"{self.source}: {place}" if place else self.source
        super().__init__(f"{where}: {expected}")


class TooLarge(InputError):
    """A file with more bytes or elements than any reader accepts."""


class UnknownOption(InputError):
    """An option that the track of an instance does not have."""
