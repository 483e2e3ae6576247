"""Solvers that are programs in any language: read from TOML files, or given as a command."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardmark.instances import InputError, tracks
from shardmark.instances.files.jsonfile import encode
from shardmark.instances.files.tomlfile import load_toml
from shardmark.solvers.registry import FOLDER, NAME, files_in, hash_of, legal_name

SHIPPED = FOLDER / "external.toml"
#: Words of a command that the referee replaces when it starts it.
PLACEHOLDERS = ("instance", "timeout", "seed", "cores", "memory")
TYPES: Mapping[str, tuple[type, ...]] = {
    "name": (str,),
    "track": (str,),
    "command": (str, list),
    "source": (str,),
    "description": (str,),
    "deterministic": (bool,),
    "variants": (dict,),
}
OPTIONAL = ("deterministic", "variants")
WORDS = {str: "a text", list: "a list of texts", bool: "true or false", dict: "a table"}
LEGAL_NAME = "expected lower-case letters, digits, dots and dashes"


@dataclass(frozen=True)
class Program:
    """One external solver; ``command`` holds absolute paths and the placeholders that the referee fills in.

    ``file`` declares it, ``hash`` identifies its version, and ``error`` says why it cannot be started ("" if it can).
    """

    name: str
    track: str
    file: str
    hash: str
    command: tuple[str, ...]
    source: str = ""
    description: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    deterministic: bool = True
    error: str = ""


def toml_files(paths: Iterable[str | Path] = ()) -> list[Path]:
    """TOML files that declare programs: the one of this project, then each of ``paths``.

    Of a folder, only files with a key that begins with ``solver`` count: other tools have TOML files too.
    """
    found = [SHIPPED]
    for path in map(Path, paths):
        found += [
            f for f in files_in(path, ".toml") if f == path or any(key.startswith("solver") for key in load_toml(f))
        ]
    return list(dict.fromkeys(file.resolve() for file in found))


def read_toml(path: Path) -> list[Program]:
    """Every program of a TOML file; InputError for the first mistake in it.

    Each ``[[solver]]`` is one program or, if it has variants, one per variant, whose values are filled into the
    command.
    """
    document = load_toml(path)
    for key in document:
        if key != "solver":
            raise InputError(path, f"key {key!r}", "expected only tables [[solver]]")
    entries = document.get("solver", [])
    if not (isinstance(entries, list) and all(isinstance(entry, dict) for entry in entries)):
        raise InputError(path, "key 'solver'", "expected tables [[solver]], with two brackets")
    if not entries and path != SHIPPED:
        raise InputError(path, "", "expected at least one table [[solver]]")
    programs = [program for i, entry in enumerate(entries, 1) for program in _read_entry(path, f"solver {i}", entry)]
    seen: set[tuple[str, str]] = set()
    for program in programs:
        if (program.track, program.name) in seen:
            expected = f"expected a name that {program.track} does not have yet, found it twice in this file"
            raise InputError(path, f"name {program.name!r}", expected)
        seen.add((program.track, program.name))
    return programs


def _read_entry(path: Path, place: str, entry: Mapping[str, Any]) -> list[Program]:
    _check_keys(path, place, entry)
    place = f"{place} ({entry['name']})"
    if entry["track"] not in tracks():
        raise InputError(
            path, f"{place} key 'track'", f"expected one of {', '.join(tracks())}, found {entry['track']!r}"
        )
    words = _words(path, f"{place} key 'command'", entry["command"])
    programs = []
    for name, params in (entry.get("variants") or {entry["name"]: {}}).items():
        if not NAME.fullmatch(name):
            raise InputError(path, f"{place} name {name!r}", LEGAL_NAME)
        _check_params(path, f"{place} variant {name!r}", params)
        filled = _fill(path, f"{place} key 'command'", words, params)
        programs.append(_program(entry, name, filled, params, path, path.parent))
    return programs


def _check_keys(path: Path, place: str, entry: Mapping[str, Any]) -> None:
    for key in entry:
        if key not in TYPES:
            raise InputError(path, f"{place} key {key!r}", f"expected only the keys {', '.join(TYPES)}")
    for key, kinds in TYPES.items():
        if key in entry and not isinstance(entry[key], kinds):
            expected = f"expected {' or '.join(WORDS[kind] for kind in kinds)}, found {entry[key]!r}"
            raise InputError(path, f"{place} key {key!r}", expected)
        if key not in entry and key not in OPTIONAL:
            raise InputError(path, place, f"expected a key {key!r}")


def _check_params(path: Path, place: str, params: Any) -> None:
    if not isinstance(params, dict):
        raise InputError(path, place, f"expected a table of values for the command, found {params!r}")
    for key, value in params.items():
        if type(value) not in (str, int, float, bool) or key in PLACEHOLDERS:
            expected = f"expected a text, number or truth value under a name other than {', '.join(PLACEHOLDERS)}"
            raise InputError(path, f"{place} key {key!r}", expected)


def _words(source: str | Path, place: str, command: str | list[Any]) -> list[str]:
    """A command as a list of words."""
    if isinstance(command, str):
        try:
            command = shlex.split(command)
        except ValueError as error:
            raise InputError(source, place, f"expected a command as a shell reads it ({error})") from None
    if not command or not all(isinstance(word, str) and "\0" not in word for word in command) or not command[0]:
        raise InputError(source, place, "expected a program and its arguments, each a text")
    return command


def _fill(source: str | Path, place: str, words: list[str], params: Mapping[str, Any]) -> list[str]:
    """Words with a variant's values in place of their names; the referee's own placeholders stay."""
    known = {**{name: f"{{{name}}}" for name in PLACEHOLDERS}, **{key: _as_text(params[key]) for key in params}}

    def value(match: re.Match[str]) -> str:
        if match[1] not in known:
            expected = f"expected only the placeholders {', '.join(known)}, found {match[0]}"
            raise InputError(source, place, expected)
        return known[match[1]]

    return [re.sub(r"\{(\w+)\}", value, word) for word in words]


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _program(
    entry: Mapping[str, Any], name: str, words: list[str], params: Mapping[str, Any], file: Path, folder: Path
) -> Program:
    """A program whose words are looked up: files from ``folder``, a bare program name on the PATH."""
    program, error = _find_program(words[0], folder)
    command = [program, *(_find_file(word, folder) for word in words[1:])]
    files = {word: Path(word) for word in command if os.path.isabs(word) and os.path.isfile(word)}
    about = {key: entry[key] for key in ("track", "source", "description", "deterministic") if key in entry}
    named = [files[word].name if word in files else word for word in command]  # wherever the files lie
    version = hash_of(((path.name, path) for path in files.values()), encode({**about, "command": named}).decode())
    return Program(name=name, file=str(file), hash=version, command=tuple(command), params=params, error=error, **about)


def _find_program(word: str, folder: Path) -> tuple[str, str]:
    """Absolute path of a program, and the reason why it cannot be started ("" if it can)."""
    if "/" not in word:
        found = shutil.which(word)
        if found:
            return str(Path(found).absolute()), ""
        meant = f", did you mean './{word}'?" if os.path.isfile(folder / word) else ""
        return word, f"there is no program {word!r} on the PATH{meant}"
    path = (folder / os.path.expanduser(word)).absolute()
    if not os.path.isfile(path):  # also for a name that no file can have
        return str(path), f"there is no program {path}"
    return str(path), "" if shutil.which(path) else f"{path} is not executable"


def _find_file(word: str, folder: Path) -> str:
    """An argument for a program that runs in another folder: absolute if it names a file or is written as a path."""
    names_one = bool(word) and os.path.isfile(folder / word)
    return str((folder / word).absolute()) if names_one or word.startswith(("./", "../")) else word


def from_command(command: str, track: str) -> Program:
    """The program of a command line; relative paths start at the current folder.

    It is named after the first file in the command, else after the program. InputError if it cannot be started.
    """
    words = _fill("command", repr(command), _words("command", repr(command), command), {})
    if "/" not in words[0] and os.path.isfile(words[0]) and (elsewhere := shutil.which(words[0])):
        raise InputError("command", repr(command), f"expected ./{words[0]}, the file here, or {elsewhere}")
    mine = next((word for word in words if os.path.isfile(_find_file(word, Path.cwd()))), words[0])
    entry = {"track": track, "description": command.strip()}
    program = _program(entry, legal_name(Path(mine).name), words, {}, Path(mine).absolute(), Path.cwd())
    if program.error:
        raise InputError("command", repr(command), f"expected a program that can be started, {program.error}")
    return program
