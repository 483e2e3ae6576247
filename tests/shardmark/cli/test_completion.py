"""The shell completes names at TAB; a script makes it ask."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from referee import answer, shardmark

pytest.importorskip("argcomplete", reason="argcomplete is not installed")


def offered(line: str) -> set[str]:
    """Words that a shell is offered for a line, asked as argcomplete's scripts ask."""
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    shell = ["bash", "-c", '"$@" 8>&1 9>/dev/null 1>/dev/null 2>/dev/null', "-", sys.executable, "-m", "shardmark"]
    done = subprocess.run(shell, capture_output=True, text=True, env=os.environ | asked | {"COMP_TYPE": "9"})
    return {word.strip() for word in done.stdout.split("\n")} - {""}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("shardmark so", {"solve"}),
        ("shardmark solve watts", {"watts-strogatz-150"}),
        ("shardmark solve chain --solver brk", {"brkga-100", "brkga-10000"}),
        pytest.param("shardmark solve chain --ti", {"--timeout"}, marks=pytest.mark.gate),
    ],
)
def test_commands_options_and_names_are_offered(line, words):
    assert offered(line) == words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_its_script(shell):
    script = shardmark("completion", shell).stdout
    assert "_ARGCOMPLETE" in script
    assert "shardmark" in script
    assert answer("completion", shell)["script"] == script.removesuffix("\n")
