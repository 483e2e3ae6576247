"""The standard output of a command: text for people, JSON for machines, and a clean end if the reader has closed it."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from shardmark.cli.terminal import in_colour, pairs, printable, table
from shardmark.cli.values import STDOUT
from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import encode, write_bytes, write_json


class NotWrittenError(Exception):
    """Error for output that cannot be written; it carries the command's ``answer``, so that it is not lost."""

    def __init__(self, message: str, answer: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.answer = answer


@contextmanager
def kept(answer: Mapping[str, Any]) -> Iterator[None]:
    """Turn an InputError of the block, which writes the output, into a NotWrittenError with the answer."""
    try:
        yield
    except InputError as error:
        raise NotWrittenError(str(error), answer) from None


def save_or_show(
    save: Callable[[], object], answer: Callable[[], Mapping[str, Any]], show: Callable[[], None], *, as_json: bool
) -> None:
    """Save what took long to find; if that fails, print it, so that the time is not lost."""
    if as_json:
        with kept(answer()):
            save()
        return
    try:
        save()
    except InputError:
        show()
        raise


def open_streams() -> None:
    """Let both streams accept text that the terminal cannot show; InputError if standard output is closed."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 open as long as the process lives
    if sys.stdout is None:
        raise InputError("standard output", "", "expected an open stream")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def drop_output() -> None:
    """Discard output in the buffer, now and when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str) -> None:
    """Write to the standard output and flush; InputError if that fails, BrokenPipeError if nobody reads it."""
    _flush(lambda: sys.stdout.write(text))


def _flush(write: Callable[[], object]) -> None:
    """Write, and flush the standard output."""
    try:
        write()
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output()
        raise InputError("standard output", "", f"expected a path that can be written ({error.strerror})") from None


def write_content(path: Path, content: bytes, what: str) -> None:
    """Write a file and name it on standard error, or write to the standard output."""
    if path != STDOUT:
        write_bytes(path, content)
        tell(f"wrote {what} to {path}")
    elif isinstance(sys.stdout, io.TextIOWrapper):
        say("")
        _flush(lambda: sys.stdout.buffer.write(content))
    else:
        say(content.decode(errors="backslashreplace"))


def write_document(path: Path, document: Any, what: str = "") -> None:
    """Write JSON to a file or the standard output; if ``what`` is given, name both on standard error."""
    if path == STDOUT:
        say(encode(document).decode())
        return
    write_json(path, document)
    if what:
        tell(f"wrote {what} to {path}")


def tell(words: str) -> None:
    """Print a line on standard error."""
    print(printable(words), file=sys.stderr)


def emit(answer: Any, as_json: bool, *, to_stderr: bool = False) -> None:
    """Print an answer, unless it is None: one JSON value for machines, aligned columns for people.

    Numbers beyond float64 become null in JSON and `BEYOND` in columns; integers of any length are exact. With
    ``to_stderr`` the answer goes to standard error, as the standard output has a file's content.
    """
    bright = in_colour(sys.stderr if to_stderr else sys.stdout)
    if answer is None:
        return
    if as_json:
        text = json.dumps(_finite(answer), allow_nan=False)
    elif isinstance(answer, list):
        text = table(answer, bright=bright)
    else:
        text = pairs(answer, bright)
    if to_stderr:
        print(text, file=sys.stderr)
    else:
        say(f"{text}\n")


def _finite(answer: Any) -> Any:
    """The same, with None for every float that is not finite."""
    if isinstance(answer, Mapping):
        return {key: _finite(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [_finite(value) for value in answer]
    return None if isinstance(answer, float) and not math.isfinite(answer) else answer
