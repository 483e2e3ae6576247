"""What a branch adds to the project: solvers, instances and records that a review takes over, and what it leaves.

Only git objects are read: nothing of the branch is checked out, so that a link, an attribute or a name in it cannot do
anything here. What is taken over is written by `take`, below a folder of the review.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from shardmark.cli.submission.summary import WATCHED
from shardmark.instances import InputError, tracks

HISTORY, CATALOG = "records/history.jsonl", "instances/catalog.toml"
#: Files to which a branch may add lines, and how many bytes.
APPENDED = {HISTORY: 1 << 20, CATALOG: 1 << 16}
SOLVER, SUBMISSION, INSTANCE = "solver", "submission", "instance"
SOLUTION, CERTIFICATE = "solution", "certificate"
#: Names of files that a branch may add, by kind, and how many bytes each may have.
NEW = {
    SOLVER: (re.compile(rf"solvers/({'|'.join(tracks())})/(bounds/)?[a-z][a-z0-9_]*\.py"), 1 << 18),
    SUBMISSION: (re.compile(r"submissions/[a-z0-9][a-z0-9.-]*\.json"), 1 << 20),
    INSTANCE: (re.compile(rf"instances/data/({'|'.join(tracks())})/[a-z0-9][a-z0-9.-]*\.json(\.gz)?"), 1 << 20),
    SOLUTION: (re.compile(r"records/solutions/[a-z0-9][a-z0-9.-]*-[0-9a-f]{12}\.json\.gz"), 1 << 22),
    CERTIFICATE: (re.compile(r"records/certificates/[a-z0-9][a-z0-9.-]*-[0-9a-f]{12}\.cert\.json\.gz"), 1 << 20),
}
#: Folders in which other files are not what they seem.
FOLDERS = tuple(
    f"{folder}/" for folder in ("submissions", "instances/data", "records/solutions", "records/certificates")
)
PLAIN, ABSENT = "100644", "000000"  # modes
MOST_LISTED = (
    1 << 22
)  # bytes of all paths of a branch; trees can be nested so that a few objects stand for millions of files
MOST_CHANGED = 1 << 19  # bytes of git's raw difference, about 4,000 files; a summary then has room for all of them


@dataclass(frozen=True)
class Added:
    """A file that is taken over, or for one of `APPENDED` the lines that are added to it; and its kind."""

    path: str
    kind: str
    content: bytes


@dataclass(frozen=True)
class Left:
    """A file that is not taken over, by its name as git has it, and why: a key of `summary.REASONS`."""

    path: bytes
    reason: str


@dataclass(frozen=True)
class Changes:
    """What ``head`` adds since it left ``base``, two commits."""

    base: str
    head: str
    added: tuple[Added, ...]
    left: tuple[Left, ...]
    deleted: tuple[str, ...]  # solutions of records

    def of(self, kind: str) -> list[Added]:
        """Files of a kind."""
        return [file for file in self.added if file.kind == kind]


@dataclass(frozen=True)
class _Entry:
    """One entry of git's raw difference between two commits."""

    old: str  # modes
    new: str
    blob: str
    path: bytes


def changes(root: Path, branch: str) -> Changes:
    """Return what a branch adds to the commit that is checked out at ``root``; InputError for an unknown branch."""
    if not (root / ".git").exists():
        raise InputError(root, "", "expected a git checkout of the project, as `make setup` installs it")
    base, head = _commit(root, "HEAD"), _commit(root, branch)
    unrelated = InputError(branch, "", "expected history in common with the checkout, in a clone that is not shallow")
    fork = _git(root, "merge-base", base, head, failed=unrelated).decode().strip()
    if fork == head:
        raise InputError(branch, "", "expected commits that the checkout lacks: check out the branch that it is for")
    added: list[Added] = []
    left: list[Left] = []
    deleted: list[str] = []
    for entry in _entries(root, fork, head):
        name = entry.path.decode(errors="replace")
        if entry.new == ABSENT and any(NEW[kind][0].fullmatch(name) for kind in (SOLUTION, CERTIFICATE)):
            deleted.append(name)
            continue
        found = _sorted(root, base, fork, entry)
        if isinstance(found, Added):
            added.append(found)
        else:
            left.append(Left(entry.path, found))
    return Changes(base, head, tuple(added), tuple(left), tuple(deleted))


def take(file: Added, folder: Path) -> Path:
    """Write a file below a folder, and return its path."""
    path = folder / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file.content)
    return path


def _sorted(root: Path, base: str, fork: str, entry: _Entry) -> Added | str:
    """Return a file of a branch that is taken over, or why it is not."""
    try:
        path = entry.path.decode()
    except UnicodeDecodeError:
        return "name"
    if entry.new not in (PLAIN, "100755", ABSENT):
        return "link"
    if ".." in path.split("/") or not path.isprintable():
        return "name"
    if path in APPENDED and entry.new == PLAIN:
        return _appended(root, fork, entry, path)
    kind = next((kind for kind, (pattern, _) in NEW.items() if pattern.fullmatch(path)), None)
    if kind is None:
        return "name" if path.startswith(FOLDERS) else "outside"
    if entry.old != ABSENT or _git(root, "ls-tree", base, "--", path):
        return "changes"
    if entry.new != PLAIN:
        return "executable"
    package = path.removesuffix(".py")  # which Python would import instead
    if kind == SOLVER and (Path(path).stem in modules() or _git(root, "ls-tree", base, "--", package)):
        return "shadows"
    if int(_git(root, "cat-file", "-s", entry.blob)) > NEW[kind][1]:
        return "large"
    content = _git(root, "cat-file", "blob", entry.blob)
    return "code at import" if kind == SOLVER and runs_code(content) else Added(path, kind, content)


def _appended(root: Path, fork: str, entry: _Entry, path: str) -> Added | str:
    """Return the lines that a branch adds to the end of a file, or why they cannot be told."""
    before = _git(root, "cat-file", "blob", f"{fork}:{path}")
    if int(_git(root, "cat-file", "-s", entry.blob)) > len(before) + APPENDED[path]:
        return "large"
    after = _git(root, "cat-file", "blob", entry.blob)
    if not after.startswith(before) or not before.endswith(b"\n"):
        return "rewrites"
    return Added(path, path, after.removeprefix(before))


@cache
def modules() -> frozenset[str]:
    """Names of modules that a solver's file must not have: those of Python and of what is installed."""
    return frozenset(sys.stdlib_module_names).union(packages_distributions())


def runs_code(content: bytes) -> bool:
    """Return True if a Python file does more at its top than define, import and assign; False if it cannot be parsed.

    This names what a reader should see; it keeps nothing out, as a definition can run code as well.
    """
    try:
        left: list[ast.stmt] = ast.parse(content).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # its import says so
    while left:  # no recursion: the file chooses how deep its statements are
        node = left.pop()
        if isinstance(node, ast.Try):
            left += (*node.body, *node.orelse, *node.finalbody, *(part for way in node.handlers for part in way.body))
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            left += (*node.body, *node.orelse)
        elif not isinstance(node, DEFINING) and not (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            return True
    return False


#: Statements of a file's top that define, import or assign.
DEFINING = (
    *(ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign),
    *(ast.Pass, ast.Assert),
)


def uses(content: bytes) -> list[str]:
    """Return which of `WATCHED` a Python file imports or names, in their order; none if it cannot be parsed."""
    found: set[str] = set()
    try:
        for node in ast.walk(ast.parse(content)):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
            elif isinstance(node, ast.Name):
                found.add(node.id)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [word for word in WATCHED if word in found]


def _entries(root: Path, fork: str, head: str) -> Iterator[_Entry]:
    """Yield what differs between two commits; a file that was moved is one deleted and one added."""
    # First a listing that git prints as it goes: what differs it collects in memory.
    _git(root, "ls-tree", "-r", "-t", "-z", "--name-only", head, most=MOST_LISTED)
    words = ("diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev", "--full-index", fork, head)
    raw = _git(root, *words, most=MOST_CHANGED)
    fields = raw.split(b"\0")[:-1]
    for about, path in zip(fields[::2], fields[1::2], strict=True):
        old, new, _, blob, _ = about.decode().removeprefix(":").split(" ")
        yield _Entry(old, new, blob, path)


def _commit(root: Path, name: str) -> str:
    """Return the hash of a commit; a name that begins with a dash is no option."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    unknown = InputError(name, "", f"expected a branch or a commit of {root}")
    return _git(root, *words, failed=unknown).decode().strip()


def _git(root: Path, *words: str, most: int = -1, failed: InputError | None = None) -> bytes:
    """Return what git prints; InputError if it is missing, fails or prints more than ``most`` bytes."""
    command = ["git", "--literal-pathspecs", *words]
    with tempfile.TemporaryFile() as wrong:
        try:
            git = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, stderr=wrong)
        except FileNotFoundError:
            raise InputError("git", "", "expected git on the PATH") from None
        with git:
            assert git.stdout is not None
            printed = git.stdout.read(most)
            if most >= 0 and git.stdout.read(1):
                git.kill()
                expected = f"expected fewer files: `git {words[0]}` lists more than {most} bytes"
                raise InputError(words[-1], "", expected)
        wrong.seek(0)
        if git.returncode:
            said = " ".join(wrong.read(1000).decode(errors="replace").split()) or f"exit status {git.returncode}"
            raise failed or InputError(words[-1], "", f"expected `git {words[0]}` to work in {root} ({said[:200]})")
    return printed
