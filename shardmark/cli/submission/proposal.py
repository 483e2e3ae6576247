"""The branch that proposes solvers: their file and their results in one commit, made outside the working tree."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any

from shardmark.cli.submission.conformance import Finding
from shardmark.cli.submission.standing import Standing
from shardmark.harness.campaign.discover import SolverInfo, declared_in
from shardmark.instances import InputError
from shardmark.instances.files.jsonfile import encode

LICENCE = "Apache-2.0"  # of the project, which a proposed file comes under
FORMAT = "shardmark/submission/1"
PROGRAMS = "solvers/external.toml"  # of the project, declares solvers that are programs
ROOT = Path(__file__).resolve().parents[3]  # the checkout, if this is one


def propose(path: Path, infos: Sequence[SolverInfo], findings: Sequence[Finding], stands: Sequence[Standing]) -> str:
    """Commit solvers and their results to a new branch ``solver/NAME`` of the project; return the branch's name.

    A Python file goes to the folder of its track; the entries of a TOML file are added to those of `PROGRAMS`. Neither
    the working tree nor the index changes. InputError for a file that has no place in ``solvers/``, or outside a git
    checkout of the project.
    """
    root, home, branch = require_place(path, infos)
    files = {
        home: _with_programs(root, path) if home == PROGRAMS else path.read_bytes(),
        f"submissions/{infos[0].name}.json": encode(_document(root, infos, findings, stands)),
    }
    names = ", ".join(info.name for info in infos)
    kind = "bounds" if infos[0].kind == "bound" else "solvers"
    tracks = " and ".join(dict.fromkeys(info.track for info in infos))
    _commit(root, branch, files, f"Add {names} to the {kind} of {tracks}")
    return branch


def _document(
    root: Path, infos: Sequence[SolverInfo], findings: Sequence[Finding], stands: Sequence[Standing]
) -> Mapping[str, Any]:
    """Return who proposes what, and how it did."""
    return {
        "format": FORMAT,
        "author": _author(root),
        "licence": LICENCE,
        "date": date.today().isoformat(),
        "solvers": [
            {
                "name": info.name,
                "track": info.track,
                "source": info.source,
                "description": info.description,
                "version": info.hash,
                "instances": list(stand.instances),
                "ranking": [_entry(row) for row in stand.ranking],
            }
            for info, stand in zip(infos, stands, strict=True)
        ],
        "checks": [
            asdict(replace(finding, detail=_without_folders(finding.detail, root, infos))) for finding in findings
        ],
    }


def _entry(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the ranking: ``yours`` as a truth value, and no division if the track has but one."""
    return {key: value for key, value in {**row, "yours": bool(row["yours"])}.items() if value != ""}


def _without_folders(text: str, root: Path, infos: Sequence[SolverInfo]) -> str:
    """Make paths relative to the project or the solver's folder: the rest concerns only the author's machine."""
    for folder in (root, *{Path(info.file).parent for info in infos}):
        text = text.replace(f"{folder}{os.sep}", "")
    return text


def _author(root: Path) -> str:
    """Return the author's name; InputError with git's advice if git does not know it."""
    return _git(root, "var", "GIT_AUTHOR_IDENT").partition(" <")[0]


def home_of(info: SolverInfo, name: str) -> str:
    """Return where the project has a solver's Python file of this name."""
    return f"solvers/{info.track}/{'bounds/' if info.kind == 'bound' else ''}{name}"


def require_place(path: Path, infos: Sequence[SolverInfo]) -> tuple[Path, str, str]:
    """Return the git checkout of the project, the place of a solver file in it, and the name of the file's branch.

    Raise InputError if there is no checkout, the file has no place in it, the place or the branch exists, or git does
    not know the author.
    """
    if path.suffix not in (".py", ".toml"):
        raise InputError(path, "--branch", "expected a Python file, or a TOML file that declares the program")
    root, first = ROOT, infos[0]
    if not (root / ".git").exists():
        raise InputError(root, "--branch", "expected a git checkout of the project, as `make setup` installs it")
    if path.suffix == ".toml":
        home = PROGRAMS
        if len(infos) < len(declared_in(path)):
            raise InputError(path, "--branch", "expected no --track, as all programs of the file are proposed")
        _require_no_files(path, infos)
        _with_programs(root, path)
    else:
        home = home_of(first, path.name)
        if len({(info.track, info.kind) for info in infos}) > 1:
            raise InputError(path, "--branch", "expected solvers of one track and kind in the file")
    branch = f"solver/{first.name}"
    if _git(root, "branch", "--list", branch):
        raise InputError(branch, "", "expected no branch of that name: delete it or rename the solver")
    if home != PROGRAMS and _git(root, "ls-tree", "HEAD", "--", home) and path.resolve() != root / home:
        raise InputError(path, "--branch", f"expected an unused file name, the project has {home}: rename the file")
    _author(root)
    return root, home, branch


def _require_no_files(path: Path, infos: Sequence[SolverInfo]) -> None:
    """Raise InputError if a command names a file relative to its TOML file: the branch holds the entry only."""
    folder = path.parent.resolve()
    for info in infos:
        for word in info.command:
            if Path(word).is_relative_to(folder):
                found = os.path.relpath(word, folder)
                expected = f"expected a command without paths relative to this file, whose entries move to {PROGRAMS}"
                raise InputError(path, f"solver {info.name} key 'command'", f"{expected}, found {found}")


def _with_programs(root: Path, path: Path) -> bytes:
    """Return the project's declarations of programs with those of a TOML file added.

    InputError if its entries cannot be added, as when they are written inline, or if the file is the project's own.
    """
    if path.resolve() == root / PROGRAMS:
        raise InputError(path, "--branch", "expected a file of your own, from which programs are added to this one")
    theirs, mine = _git(root, "show", f"HEAD:{PROGRAMS}"), path.read_text(encoding="utf-8-sig")
    declared = f"{theirs}\n\n{mine.strip()}\n"
    entries = [entry for text in (theirs, mine) for entry in tomllib.loads(text).get("solver", [])]
    with contextlib.suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(f"{declared}[[solver]]\n").get("solver") == [*entries, {}]:  # a next one can be added, too
            return declared.encode()
    raise InputError(path, "--branch", f"expected tables [[solver]], which can be added to {PROGRAMS}")


def _commit(root: Path, branch: str, files: Mapping[str, bytes], message: str) -> None:
    """Commit files on top of HEAD to a new branch, through an index of its own."""
    with tempfile.TemporaryDirectory(prefix="shardmark-") as folder:
        index = Path(folder) / "index"
        _git(root, "read-tree", "HEAD", index=index)
        for name, content in files.items():
            blob = _git(root, "hash-object", "-w", "--stdin", given=content)
            _git(root, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}", index=index)
        tree = _git(root, "write-tree", index=index)
    commit = _git(root, "commit-tree", tree, "-p", "HEAD", "-m", message)
    _git(root, "branch", branch, commit)


def _git(root: Path, *words: str, given: bytes = b"", index: Path | None = None) -> str:
    """Run git in the checkout and return what it prints; InputError with what it says if it fails."""
    environment = os.environ | ({} if index is None else {"GIT_INDEX_FILE": str(index)})
    try:
        done = subprocess.run(["git", *words], cwd=root, input=given, capture_output=True, env=environment)
    except FileNotFoundError:
        raise InputError("git", "--branch", "expected git on the PATH") from None
    if done.returncode:
        message = " ".join(done.stderr.decode(errors="replace").split()) or f"exit status {done.returncode}"
        raise InputError(root, "--branch", f"expected `git {words[0]}` to work ({message[:200]})")
    return done.stdout.decode(errors="replace").strip()
