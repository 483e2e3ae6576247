"""The file that ``shardmark new-solver`` writes: a working solver to start from."""

from __future__ import annotations

from pathlib import Path

TEMPLATES = Path(__file__).parent / "templates"


def template(name: str, track: str) -> str:
    """Text of a solver file for a track: its template under a new name."""
    text = (TEMPLATES / f"{track}.py").read_text()
    return text.replace('"""NAME:', f'"""{name}:').replace("def name(", f"def {name.replace('-', '_')}(")
