"""A substitute for Scotch's gpart on machines without it: it checks its input."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

GPART = """#!{python} -IS
import sys

if sys.argv[1:] == ["-V"]:
    print("gmap/gpart, version 7.0.3", file=sys.stderr)
    sys.exit()
numbers = iter(map(int, sys.stdin.read().split()))
assert next(numbers) == 0
vertices, arcs = next(numbers), next(numbers)
assert (next(numbers), next(numbers)) == (0, 11)
edges = {{}}
for v in range(vertices):
    assert next(numbers) >= 0
    for _ in range(next(numbers)):
        weight, w = next(numbers), next(numbers)
        assert weight > 0 and w != v and (v, w) not in edges
        edges[v, w] = weight
assert not list(numbers) and len(edges) == arcs
assert all(edges[w, v] == weight for (v, w), weight in edges.items())
print(vertices)
for v in reversed(range(vertices)):
    print(v, {part})
"""


def install(path: Path, name: str = "gpart", part: str = "v * int(sys.argv[1]) // vertices") -> None:
    """Install a program with the input and output formats of Scotch's."""
    write(path / name, GPART.format(python=sys.executable, part=part))


def write(program: Path, text: str) -> None:
    program.write_text(text)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
