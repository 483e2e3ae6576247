"""The template of a working solver that ``shardmark new-solver`` writes."""

from __future__ import annotations

from pathlib import Path

TEMPLATES = Path(__file__).parent / "templates"

#: Texts of templates and examples that the author of a solver has to replace.
UNCHANGED = {
    "source": ("where the method is described",),
    "module docstring": ("say in one line what the method is.",),
    "description": ("Say in one line what it does; tables show it.", "What it does, in one line"),
}


def template(name: str, track: str) -> str:
    """Return the text of a solver file for a track: its template with the solver's name."""
    text = (TEMPLATES / f"{track}.py").read_text()
    return text.replace('"""NAME:', f'"""{name}:').replace("def name(", f"def {name.replace('-', '_')}(")
