"""Output of libraries goes to stderr instead of stdout, and only while they are called."""

from __future__ import annotations

import ctypes

import pytest

from shardmark.solvers._redirect_stdout import silent


def test_what_compiled_code_prints_goes_to_stderr_meanwhile(capfd: pytest.CaptureFixture[str]) -> None:
    library = ctypes.CDLL(None)
    library.puts(b"before")
    with silent():
        library.puts(b"meanwhile")
    library.puts(b"after")
    library.fflush(None)
    assert capfd.readouterr() == ("before\nafter\n", "meanwhile\n")
