"""Common ground of the referee's tests: a small instance, the zoo of solvers, and the backends that work here."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from harness.sandbox.backends.choice import Backend, choose
from instances import InputError
from shardmark.cli.arguments import main

SANDBOX = Path(__file__).parents[1] / "harness" / "sandbox"
ZOO = SANDBOX / "zoo"
CHAIN = {
    "format": "shardmark/pipeline/1",
    "name": "chain",
    "stages": 2,
    "bandwidth": 1.0,
    "memory": None,
    "nodes": {"work": [3, 2, 4, 1], "output_size": [1, 1, 1, 1], "param_size": [0, 0, 0, 0]},
    "edges": [[0, 1], [1, 2], [2, 3]],
}


def backend_here(name: str, isolation: str = "auto") -> Backend:
    """A backend that works here; skips with the reason if it does not."""
    found = try_backend(name, isolation)
    if isinstance(found, InputError):
        pytest.skip(str(found))
    return found


@cache
def try_backend(name: str, isolation: str) -> Backend | InputError:
    """A backend, or why it does not work here."""
    try:
        return choose(name, isolation)
    except InputError as error:
        return error


def refused(capsys, *arguments):
    """Return the sentence of a command, run in this process, that ends with status 2."""
    try:
        status = main([*map(str, arguments)])
    except SystemExit as exit_of_argparse:
        status = exit_of_argparse.code
    assert status == 2
    return capsys.readouterr().err
