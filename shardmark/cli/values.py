"""Parsers of option values: each takes a text and raises an error in one sentence."""

from __future__ import annotations

import argparse
import errno
import keyword
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

#: Maximum of a count, a seed, the number of seeds, and the number of a CPU.
MAX_COUNT, MAX_SEED, MAX_SEEDS, MAX_CPU = 2**31 - 1, 2**63 - 1, 10**6, 2**16


def whole(least: int = -MAX_SEED, most: int = MAX_SEED) -> Callable[[str], int]:
    """Return a parser of whole numbers in decimal digits, within a range."""

    def read(text: str) -> int:
        number = int(text) if re.fullmatch("[+-]?[0-9]{1,20}", text) else None
        if number is None or not least <= number <= most:
            within = "" if least < 0 else f" from {least} to {most}"
            raise argparse.ArgumentTypeError(f"expected a whole number{within}, found {text!r}")
        return number

    return read


natural, positive_int, count, seeds = whole(0), whole(1, MAX_COUNT), whole(0, MAX_COUNT), whole(1, MAX_SEEDS)


#: Value of an option for a file that stands for the standard output.
STDOUT = Path("-")


def number(text: str) -> float:
    """A number of either sign; underscores and digits of other scripts, which Python accepts, are refused."""
    try:
        return float(text if text.isascii() and "_" not in text else "")
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, found {text!r}") from None


def numbers(text: str) -> list[int]:
    """Numbers in increasing order, from a list of numbers and ranges."""
    read, found = whole(0, MAX_CPU), set[int]()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        found |= set(range(read(first), read(last if dash else first) + 1))
    if not found:
        raise argparse.ArgumentTypeError(f"expected numbers and ranges such as 0,2,4-7, found {text!r}")
    return sorted(found)


def from_one(text: str) -> tuple[int, ...]:
    """Different numbers, at least 1, in increasing order, from a list."""
    return tuple(sorted({positive_int(word) for word in text.split(",")}))


def names(text: str) -> tuple[str, ...]:
    """Different names, in their order, from a list."""
    return tuple(dict.fromkeys(name for name in text.split(",") if name))


def seconds(text: str) -> float:
    """A length of time in seconds, or an amount of memory in MiB."""
    return positive(text, "1e9")


def positive(text: str, limit: str = "1e300") -> float:
    """A positive number."""
    try:
        value = number(text)
    except argparse.ArgumentTypeError:
        value = -1.0
    if not 0 < value < float(limit):
        raise argparse.ArgumentTypeError(f"expected a positive number below {limit}, found {text!r}")
    return value


def path(text: str) -> Path:
    """A path that need not exist; a path that the system cannot look up is refused."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, found ''")
    try:
        os.stat(text)
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
            raise argparse.ArgumentTypeError(f"expected a path ({error.strerror}), found {text!r}") from None
    return Path(text)


def path_text(text: str) -> str:
    """The text of a path, checked by `path`; the text keeps "./-" apart from "-"."""
    path(text)
    return text


def folder(text: str) -> Path:
    """The path of a folder, which need not exist."""
    if text == str(STDOUT):
        raise argparse.ArgumentTypeError("expected a folder, found '-'; a folder of that name is ./-")
    return path(text)


def filled(text: str) -> str:
    """A text that is not empty, unlike that of an unset shell variable."""
    if not text:
        raise argparse.ArgumentTypeError("expected a text, found ''")
    return text


def setting(text: str) -> tuple[str, str]:
    """A name and its value."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {text!r}")
    return name, value


def size(text: str) -> tuple[str, int]:
    """A name, which may contain equals signs, and a positive integer."""
    name, equals, value = text.rpartition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {text!r}")
    return name, positive_int(value)


def branch(text: str) -> tuple[str, str]:
    """A name, which may contain equals signs, and a choice."""
    name, equals, value = text.rpartition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"expected NAME=then or NAME=else, found {text!r}")
    return name, value


def solver_name(text: str) -> str:
    """The name of a solver, from which the name of a Python function can be derived."""
    from shardmark.solvers.registry import NAME

    name = text.replace("-", "_")
    if not NAME.fullmatch(text) or not name.isidentifier() or keyword.iskeyword(name):
        expected = "expected lower-case letters, digits and dashes that make a name for a Python function"
        raise argparse.ArgumentTypeError(f"{expected}, found {text!r}")
    return text


#: Parser of an option of generators and importers, by its type.
PARSERS_BY_TYPE: Mapping[type, Callable[[str], Any]] = {int: whole(), float: number, str: str, Path: path, dict: size}
#: Parser and placeholder of an option of reproductions, by its kind.
PARSERS_BY_KIND: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "count": (count, "N"),
    "positive": (positive_int, "N"),
    "numbers": (from_one, "LIST"),
    "names": (names, "LIST"),
    "seconds": (seconds, "S"),
    "text": (str, "X"),
}
