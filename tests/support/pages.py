"""Pages of the documentation as tests: their files are written, their commands and snippets run, their output compared.

A fenced block with a title is a file. A block ``console`` has commands after ``$`` and their output, in which ``...``
stands for anything. A block ``python`` without a title is run, all of a page in one namespace. A comment
``<!-- parsed only: why -->`` before a block has its code compiled, and the arguments of its commands parsed, only.
"""

from __future__ import annotations

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

from referee import shardmark

from shardmark.cli.arguments import parser

ROOT = Path(__file__).parents[2]
FENCE = re.compile(
    r"^(?:<!-- parsed only: (?P<why>[^\n]+) -->\n)?"
    r'```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$',
    re.DOTALL | re.MULTILINE,
)
SHELL = re.compile(r"[|&;<>$*]")
MATCHES = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A fenced block; ``line`` is its first line in the page, ``why`` the reason why it is only parsed."""

    line: int
    language: str
    title: str
    text: str
    why: str

    @property
    def commands(self) -> Iterator[tuple[str, str]]:
        """Commands of a block ``console``, each with the output that the page shows."""
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, output = part.replace("\\\n", " ").partition("\n")
            yield re.sub(r"\s+#\s.*", "", command).strip(), output


def pages() -> list[Path]:
    """Return the README and every page of the documentation."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            text.count("\n", 0, found.start()) + 1,
            found["language"],
            found["title"] or "",
            found["text"],
            found["why"] or "",
        )
        for found in FENCE.finditer(text)
    ]


def replay(page: Path, folder: Path) -> None:
    """Follow a page in a folder, from its first block to its last."""
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        at = f"{page.name}:{block.line}"
        if block.title:
            _write(folder / block.title, block.text)
        elif block.language == "python":
            code = compile("\n" * block.line + block.text, page.name, "exec")
            if not block.why:
                with chdir(folder):
                    exec(code, names)
        elif block.language == "console":
            for command, output in block.commands:
                if block.why:
                    parse(command)
                else:
                    _run(command, output, folder, at)


def parse(command: str) -> None:
    """Check that a command is one: of ours, that its arguments are accepted; of make, that there is such a target."""
    program, *arguments = shlex.split(command)
    if program == "make":
        targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(targets) >= {word for word in arguments if "=" not in word}, command
    if Path(program).name == "shardmark":
        parser(arguments).parse_args(arguments)


def _patient(arguments: list[str]) -> list[str]:
    """Give a run a minute, on a busy machine too: those on the pages end by themselves, long before."""
    if arguments[0] not in ("solve", "bound", "run") and "--method" not in arguments:
        return arguments
    if "--timeout" in arguments:
        at = arguments.index("--timeout")
        arguments = arguments[:at] + arguments[at + 2 :]
    return [*arguments, "--timeout", "60"]


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _run(command: str, output: str, folder: Path, at: str) -> None:
    """Run a command, compare its status with the verdict that the page shows, and its output."""
    program, *arguments = shlex.split(command)
    if program in ("make", "."):
        parse(command)
        return
    if program == "shardmark" and not SHELL.search(command):
        status, found, errors = shardmark(*_patient(arguments), cwd=folder)
    else:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command, shell=True, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
        )
        status, found, errors = done.returncode, done.stdout, done.stderr
    expected = 1 if re.search(r"^feasible\s+no$", output, re.MULTILINE) else 0
    assert status == expected, f"{at}: {command}\n{found}{errors}"
    fits = doctest.OutputChecker().check_output(output, found, MATCHES)
    assert fits or not output, f"{at}: {command}\n{found}"
