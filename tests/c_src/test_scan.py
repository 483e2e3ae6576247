"""The reader's kernels, plain and under sanitizers, on valid, nearly valid and invalid JSON, cut anywhere."""

from __future__ import annotations

import json
import random
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from compiled import CORE, SANITIZE, compiled, require

from shardmark.instances.files import scan

HERE = Path(__file__).resolve().parent
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
TEXTS = 3000
ODD = (
    "",
    "[",
    "]",
    ",",
    "-",
    "0",
    "00",
    "1.5",
    "1e9",
    "NaN",
    "Infinity",
    '"',
    "\\",
    "[[",
    "]]",
    " ",
    "\n",
    "[1]",
    "\xff",
)
EDGES = (0, 1, 9, 10, 99999999, 100000000, 10**16, 10**18, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 10**19, 10**30)


@pytest.fixture(scope="module", params=["plain", "sanitized"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scan")
    flags: tuple[str, ...] = ("-O3",)
    if request.param == "sanitized":
        require(folder, *SANITIZE)
        flags = SANITIZE
    sources = [HERE / "scan.c", CORE / "reader/scan.c", CORE / "reader/digest.c"]
    return compiled(folder / "scan", sources, *STRICT, *flags, "-Wl,--wrap=realloc")


def documents(rng: random.Random) -> Iterator[str]:
    """Yield JSON texts with lists of lists whose integers are near the limits."""
    while True:
        rows = [[rng.choice((rng.choice(EDGES), rng.randrange(10 ** rng.randrange(1, 20)))) for _ in range(length)]
                for length in (rng.randrange(5) for _ in range(rng.randrange(6)))]  # fmt: skip
        other = rng.choice((1, "[[1]]", 'a"[[', None, [], [1, 2], ["x"], {"b": [[7]]}, 1.5))
        separators = rng.choice(((",", ":"), (", ", ": "), (" , ", " : ")))
        yield json.dumps({"a": rows, "c": other}, separators=separators, indent=rng.choice((None, None, 1)))


def texts() -> list[tuple[bytes, int]]:
    """Return texts, half of them corrupted, each with the length of the pieces it is cut into."""
    rng = random.Random(5)
    cases = []
    for text, corrupted in zip(documents(rng), range(TEXTS), strict=False):
        for _ in range(rng.randrange(3) if corrupted % 2 else 0):
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(ODD) + text[at + rng.randrange(2) :]
        cases.append((text.encode("latin-1"), rng.choice((1, 2, 3, 7, 33, 64, 1000))))
    cases += [(bytes(rng.randrange(256) for _ in range(length)), 2048) for length in (0, 1, 2047, 2048, 2049, 9000)]
    return cases


def expected_scan(text: bytes, cut: int) -> str:
    """Return the output that the program should print for a scan."""
    try:
        found = scan.scan(memoryview(text)[at : at + cut] for at in range(0, len(text), cut))
    except scan.Unsupported:
        return "5 "
    lists = [
        ",".join(map(str, (len(part), len(part.flat), int(part.negative), *part.start, *part.flat)))
        for part in found.lists()
    ]
    return " ".join([f"0 {found.text.hex()}", *lists])


def digest(text: bytes) -> str:
    """Return the digest by its definition."""
    key = [0x9E3779B97F4A7C15 * (i + 1) % 2**64 for i in range(258)]
    state = [0, 0]
    for at in range(0, len(text), 2048):
        words = struct.unpack("<256Q", text[at : at + 2048].ljust(2048, b"\0"))
        shifted = [(word + k) % 2**64 for word, k in zip(words, key, strict=False)]
        total = sum(a * b for a, b in zip(shifted[::2], shifted[1::2], strict=True)) % 2**128
        for part in range(0, 128, 32):
            for i in range(2):
                state[i] = (state[i] * (key[256 + i] % 2**61) + (total >> part) % 2**32) % (2**61 - 1)
    return "".join(f"{part:016x}" for part in state)


@pytest.mark.gate
def test_scans_and_digests(program: Path) -> None:
    cases = texts()
    given = b"".join(struct.pack("=II", len(text), cut) + text for text, cut in cases)
    done = subprocess.run([program], input=given, capture_output=True)
    assert done.stderr.decode() == ""
    assert done.returncode == 0
    lines = done.stdout.decode().splitlines()
    expected = [f"{expected_scan(text, cut)} {digest(text)}" for text, cut in cases]
    assert lines == expected
    taken = [line for line in lines if line.startswith("0 ")]
    assert TEXTS // 4 < len(taken) < len(lines)
