"""Find the places of a C file where one small change makes a mutant, and compile the C core of a copy again."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path

from c_src.build import CORE, FLAGS, INCLUDES, ffibuilder, reader
from tests.mutants.python_sites import Site

#: Comments, strings, characters and directives.
_SILENT = re.compile(
    r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|^[ \t]*#[^\n]*", re.DOTALL | re.MULTILINE
)
_STATEMENT = (
    r"(?<=\n)[ \t]+(?!return|goto|case|default|else|break)[\w.>\[\]-]+"
    r"(?: [+*|&-]?= [^;{}]+|\([^;{}]*\));(?=\n)"
)
_NUMBER = r"(?<![\w.])\d+(?![\w.])"
#: Name of a change, pattern to which it applies, and replacement. Blanks are as clang-format sets them.
_CHANGES: tuple[tuple[str, str, str | Callable[[re.Match[str]], str]], ...] = (
    *((f"{old} to {new}", rf"(?<= ){re.escape(old)}(?= )", new) for old, new in (
        *(("<", "<="), ("<", ">="), ("<=", "<"), ("<=", ">"), (">", ">="), (">", "<="), (">=", ">"), (">=", "<")),
        *(("==", "!="), ("!=", "=="), ("&&", "||"), ("||", "&&"), ("+", "-"), ("-", "+"), ("*", "+"), ("/", "*")),
        *(("+=", "-="), ("-=", "+="), ("|=", "&="), ("&=", "|="), ("&", "|"), ("|", "&"), ("<<", ">>"), (">>", "<<")),
    )),
    ("! dropped", r"(?<=[( ])!(?=[\w(])", ""),
    ("constant + 1", _NUMBER, lambda found: f"{int(found[0]) + 1}"),
    ("constant - 1", _NUMBER, lambda found: f"{int(found[0]) - 1}"),
    ("fmin to fmax", r"\bfmin\b", "fmax"),
    ("fmax to fmin", r"\bfmax\b", "fmin"),
    ("continue to break", r"\bcontinue;", "break;"),
    ("statement dropped", _STATEMENT, " ;"),
    ("jump dropped", r"\b(?:break|continue);", ";"),
    ("condition negated", r"(?<=\bif )\([\w.>\[\]-]+\)", lambda found: f"(!{found[0]})"),
)  # fmt: skip
_COMPILED = [(name, re.compile(pattern), by) for name, pattern, by in _CHANGES]
_FUNCTION = re.compile(r"^(?!typedef|struct|enum)[\w *]*?\b(\w+)\([^;{]*\)\s*\{", re.MULTILINE)

#: The builder of each extension module, and its folders.
_MODULES = {"solvers/_core": (ffibuilder, CORE), "instances/files/_reader": (reader, ("reader",))}


def sites(source: str, path: str) -> list[Site]:
    """Return all mutants of a C file: none in comments, directives, texts and declarations."""
    quiet = _SILENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), source)
    functions = [(found.end(), found[1]) for found in _FUNCTION.finditer(quiet)]
    found = []
    for operator, pattern, by in _COMPILED:
        for place in pattern.finditer(quiet):
            names = [name for start, name in functions if start <= place.start()]
            if names:
                text = by if isinstance(by, str) else by(place)
                line = source.count("\n", 0, place.end()) + 1
                found.append(Site(path, line, names[-1], operator, place.start(), place.end(), text))
    return found


class Core:
    """The compiled core of a copy of the project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.objects = root / "build" / "objects"

    def build(self) -> None:
        """Compile everything."""
        for module, (ffi, _) in _MODULES.items():
            ffi.emit_c_code(str(self.root / f"{module}.c"))
            for source in self._sources(module):
                self._compile(source)
            self._link(module)

    def rebuild(self, changed: str) -> bool:
        """Compile what a changed file is part of, and link; False if it does not compile."""
        stale = users(self.root, changed)
        for module in _MODULES:
            mine = [source for source in self._sources(module)[1:] if source in stale]  # the wrapper calls the rest
            if not all(self._compile(source) for source in mine):
                return False
            if mine:
                self._link(module)
        return True

    def _sources(self, module: str) -> list[str]:
        paths = [path for folder in _MODULES[module][1] for path in (self.root / "c_src" / folder).rglob("*.c")]
        return [f"{module}.c", *(str(path.relative_to(self.root)) for path in paths)]

    def _object(self, source: str) -> Path:
        return self.objects / f"{source.replace('/', '-')}.o"

    def _compile(self, source: str) -> bool:
        self.objects.mkdir(parents=True, exist_ok=True)
        flags = [flag for flag in FLAGS if not flag.startswith("-W")]
        headers = ["-Ic_src", f"-I{sysconfig.get_path('include')}", "-DPy_LIMITED_API=0x03060000"]
        command = ["cc", "-w", "-fPIC", *flags, *headers, "-c", source, "-o", str(self._object(source))]
        return subprocess.run(command, cwd=self.root, capture_output=True).returncode == 0

    def _link(self, module: str) -> None:
        target = self.root / f"{module}.abi3.so"
        target.unlink(missing_ok=True)  # a process that still runs keeps the old one
        objects = [self._object(source) for source in self._sources(module)]
        subprocess.run(["cc", "-shared", *objects, "-o", target, "-lm"], check=True)


def users(root: Path, changed: str, *, callers: bool = False) -> set[str]:
    """Return a file and those that include it, also through others, paths from the root; or those whose calls reach it.

    A source is called by what includes its header.
    """
    paths = {str(path.relative_to(root)): path.read_text() for path in (root / "c_src").rglob("*.[ch]")}
    includes = {path: {f"c_src/{used}" for used in INCLUDES.findall(text)} for path, text in paths.items()}
    found, more = set[str](), {changed}
    while more:
        found |= more
        headers = {path.removesuffix(".c") + ".h" for path in more if callers and path.endswith(".c")}
        more = ({path for path, used in includes.items() if used & more} | headers) - found
    return found & paths.keys()


def wrappers(root: Path, path: str) -> set[str]:
    """Return the names by which Python calls kernels that reach a C file."""
    text = "".join((root / user).read_text() for user in users(root, path, callers=True))
    return set(re.findall(r"\bshard_\w+(?=\()", text))
