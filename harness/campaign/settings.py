"""Solver parameters set on the command line: a solver with values other than the declared ones is a variant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shardmark.harness.campaign.discover import SolverInfo
from shardmark.instances import InputError, catalog
from shardmark.instances.files.jsonfile import decode, read_bytes, sha256

#: Descriptions of a value by the type of the declared one.
WORDS: Mapping[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}

MAX_SHOWN = 40  # characters of a text in the name of a variant; a longer text is shown by its digest
#: Characters of a text from a file: the worker receives it as arguments, which Linux limits to 2 MiB.
MAX_TEXT = 1_500_000


def by_name(words: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the given texts by parameter; InputError for a parameter that is given twice."""
    for name, count in Counter(name for name, _ in words).items():
        if count > 1:
            raise InputError("--set", repr(name), "expected one value for each parameter")
    return dict(words)


def with_settings(info: SolverInfo, given: Mapping[str, str]) -> SolverInfo:
    """Return the variant of a solver with these parameters, or the solver itself if all values are the declared ones.

    A text that begins with @ names a file with the value. InputError for a parameter that the solver does not have,
    and for a value whose type is not the declared one's.
    """
    values = {name: _value(info, name, text) for name, text in given.items()}
    changed = {name: values[name] for name in sorted(values) if values[name] != info.params[name]}
    if not changed:
        return info
    shown = ",".join(f"{name}={_shown(value)}" for name, value in changed.items())
    params = {**info.params, **changed}
    return replace(info, name=f"{info.name}[{shown}]", params=params, settings=changed, variant_of=info.name)


def declared_and_settings(name: str, params: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return the name of the solver that a variant was made of, and the texts that `with_settings` took.

    ``params`` has all parameters of the variant; a name without settings in brackets is returned as it is.
    """
    declared, bracket, left = name.removesuffix("]").partition("[")
    if not bracket:
        return name, {}
    settings = {}
    for key in sorted(params):
        words = f"{key}={_shown(params[key])}"
        if f"{left},".startswith(f"{words},"):
            left = left[len(words) + 1 :]
            settings[key] = _text(params[key])
    return declared, settings


def _value(info: SolverInfo, name: str, text: str) -> Any:
    if info.command:
        raise InputError("parameter", repr(name), f"expected a solver in Python, found the program {info.name}")
    if name not in info.params:
        known = f"a parameter of {info.name}: {', '.join(info.params)}" if info.params else f"none for {info.name}"
        raise InputError("parameter", repr(name), f"expected {known}{catalog.near_miss(name, info.params)}")
    kind = type(info.params[name])
    if kind not in WORDS:
        raise InputError("parameter", repr(name), f"expected a parameter of {info.name} that is a number or a text")
    if kind is str and text.startswith("@"):
        text = _text_of(name, text[1:])
    try:
        return _read(kind, text)
    except (ValueError, KeyError):
        raise InputError("parameter", repr(name), f"expected {WORDS[kind]} for {info.name}, found {text!r}") from None


def _text_of(name: str, path: str) -> str:
    """Return the content of a file as one line."""
    if not path:
        raise InputError("parameter", repr(name), "expected the name of a file after @")
    text = " ".join(decode(read_bytes(path), path).split())
    if len(text) > MAX_TEXT:
        raise InputError(path, "", f"expected at most {MAX_TEXT:,} characters for a parameter, found {len(text):,}")
    return text


def _read(kind: type, text: str) -> Any:
    """Return the value of a type from its text; ValueError or KeyError if there is none."""
    if kind is bool:
        return {"true": True, "false": False}[text]
    if kind in (int, float) and (not text.isascii() or "_" in text):
        raise ValueError("a number that only Python accepts")
    value = kind(text)
    if kind is float and not math.isfinite(value):
        raise ValueError("not finite")
    if kind is str and not text.isprintable():
        raise ValueError("no text for a table")
    return value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shown(value: Any) -> str:
    """Return a value as the name of a variant shows it; a long text by the beginning of its digest."""
    if isinstance(value, str) and len(value) > MAX_SHOWN:
        return sha256(value.encode())[:12]
    return _text(value).removesuffix(".0")
