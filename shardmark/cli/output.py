"""The standard output of a command: text for people, JSON for machines, and a clean end if its reader has gone."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from collections.abc import Mapping
from typing import Any

from instances import InputError
from shardmark.cli.terminal import pairs, table


def open_streams() -> None:
    """Let output and errors take any text, whatever the terminal can show; InputError without an output."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 open as long as the process lives
    if sys.stdout is None:
        raise InputError("standard output", "", "expected one that is open")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def drop_output() -> None:
    """Discard output in the buffer, now and when the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str) -> None:
    """Write to the standard output at once; InputError if it takes no more, BrokenPipeError if nobody reads it."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output()
        raise InputError("standard output", "", f"expected a place that can be written ({error.strerror})") from None


def emit(answer: Any, as_json: bool) -> None:
    """Print an answer: one JSON value for machines, aligned columns for people.

    JSON has no numbers beyond float64: they become null there, and `BEYOND` in columns.
    """
    if as_json:
        say(f"{json.dumps(_finite(answer), allow_nan=False)}\n")
    elif isinstance(answer, list):
        say(f"{table(answer)}\n")
    elif answer is not None:
        say(f"{pairs(answer)}\n")


def _finite(answer: Any) -> Any:
    """The same, with None for every float that is not finite."""
    if isinstance(answer, Mapping):
        return {key: _finite(value) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [_finite(value) for value in answer]
    return None if isinstance(answer, float) and not math.isfinite(answer) else answer
