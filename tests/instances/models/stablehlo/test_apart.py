"""StableHLO is read in a process of its own, whose crash is a sentence."""

from __future__ import annotations

import resource
import signal
import subprocess

import pytest

from shardmark.instances.errors import InputError
from shardmark.instances.models.stablehlo import apart

DEEP = f"func.func @main() attributes {{a = affine_map<(d0) -> ({'-' * 100_000}d0)>}} {{ return }}"


@pytest.fixture
def path(tmp_path):
    (tmp_path / "program.mlir").write_text(DEEP)
    return tmp_path / "program.mlir"


def test_a_crash_of_the_parser_is_a_sentence(path):
    with pytest.raises(InputError, match=r"program.mlir: expected .*, but it crashed \(Segmentation fault\)$"):
        apart.read_stablehlo(path)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (signal.SIGXCPU, "expected StableHLO that MLIR can parse within 60 s of CPU time"),
        (signal.SIGKILL, "it crashed for lack of memory (Killed)"),
        (signal.SIGABRT, "it crashed (Aborted)"),
    ],
)
def test_the_end_of_the_process_is_told(path, number, expected, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess("", -number))
    with pytest.raises(InputError) as caught:
        apart.read_stablehlo(path)
    assert str(caught.value).endswith(expected)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (signal.SIGXCPU, "that MLIR can parse within 7 s of CPU time"),
        (signal.SIGKILL, "it crashed for lack of memory, or because `ulimit -t` allows 7 s of CPU time (Killed)"),
    ],
)
def test_a_limit_of_the_shell_is_told_as_what_ended_the_process(path, number, expected, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess("", -number))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (7, 7))
    with pytest.raises(InputError) as caught:
        apart.read_stablehlo(path)
    assert str(caught.value).endswith(expected)


def test_a_mistake_of_the_reader_itself_is_no_mistake_of_the_user(path, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess("", 1, b"", b"KeyError: 5"))
    with pytest.raises(RuntimeError, match="KeyError: 5"):
        apart.read_stablehlo(path)


def test_parsing_has_a_limit_of_processor_time(monkeypatch):
    """Set for this process, which stays far below it, and taken back."""
    limit = resource.getrlimit(resource.RLIMIT_CPU)
    used = resource.getrusage(resource.RUSAGE_SELF)
    with apart.limited(10 << 20):
        left = resource.getrlimit(resource.RLIMIT_CPU)[0] - used.ru_utime - used.ru_stime
    assert 110 <= left <= 112
    assert resource.getrlimit(resource.RLIMIT_CPU) == limit
