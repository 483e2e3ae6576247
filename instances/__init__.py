"""Instance types, file formats and the catalog; imports no other package of the project.

A track is a module of this folder that defines five names; adding one changes nothing outside:

``Instance``            a frozen dataclass of NumPy arrays, validated on construction, with ``name``, ``track``,
                        ``nodes``, ``edges`` and ``summary()``
``recognises(doc)``     True if a parsed JSON document looks like this track's format
``parse(doc, source, **options)``   the instance of a document, or InputError
``to_document(inst)``   the document of an instance; ``parse`` reads it back unchanged
``OPTIONS``             the options that ``parse`` takes, by name, each an `options.Option` (``pipeline``: ``stages``);
                        options with a ``mode`` divide the track's ranking
``RAGGED``              optional, True: ``parse`` takes `columns.Ragged` for a list of lists of integers
``refuse_too_large(content, source)``   optional: says in the track's own words why bytes are too many to be parsed
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

from shardmark.instances.errors import InputError, TooLarge, UnknownOption
from shardmark.instances.files.jsonfile import decode, parse_json, read_bytes, sha256, write_json

if __name__ != "shardmark.instances":
    raise ImportError("the package instances is now shardmark.instances; solver files import from shardmark")

# Functions import what needs NumPy: commands that read no instance answer sooner without it.

__all__ = ["TRACKS", "InputError", "load", "load_hashed", "parse", "save", "track_module", "tracks"]

#: Every track of the project, in the order in which pages and tables show them.
TRACKS = ("intraop", "pipeline", "placement", "scheduling", "hybrid")
#: Ends of the names of models, which are no instances.
MODELS = (".onnx", ".mlir")


@cache
def tracks() -> tuple[str, ...]:
    """Names of the tracks that are built, in the order of `TRACKS`."""
    return tuple(name for name in TRACKS if importlib.util.find_spec(f"shardmark.instances.{name}"))


def track_module(track: str) -> ModuleType:
    """Return the module of a track; raise InputError for an unknown name."""
    if track not in tracks():
        raise InputError("track", repr(track), f"expected one of {', '.join(tracks())}")
    return importlib.import_module(f"shardmark.instances.{track}")


def parse(content: bytes, source: str, track: str | None = None, **options: Any) -> Any:
    """Turn the bytes of an instance file, decompressed, into an instance.

    If ``track`` is None, it is recognised from the content. ``options`` with the value None are ignored; an unknown
    option raises InputError.
    """
    from shardmark.instances.files import scan

    with _general_reader_as_fallback(source):
        return _build(scan.scan(scan.in_memory(content)), source, track, options)
    try:
        document = parse_json(decode(content, source), source)
    except TooLarge:
        _refuse_too_large(content, source, track)
        raise
    return _build(document, source, track, options)


def _refuse_too_large(content: bytes, source: str, track: str | None) -> None:
    """Raise the error of a track that can say more of bytes than that they are too many."""
    for name in tracks() if track is None else [track]:
        if refuse := getattr(track_module(name), "refuse_too_large", None):
            refuse(content, source)


@contextmanager
def _general_reader_as_fallback(source: str) -> Iterator[None]:
    """Let the general reader follow if the fast one fails, as its errors name the place; TooLarge stays an error."""
    from shardmark.instances.files.scan import Unsupported

    try:
        yield
    except TooLarge as error:
        raise TooLarge(source, error.place, error.expected) from None
    except (InputError, OSError, Unsupported):
        pass


def _build(content: Any, source: str, track: str | None, options: Mapping[str, Any]) -> Any:
    """Build the instance of a document or a `scan.Scanned`; `scan.Unsupported` if the track needs lists."""
    from shardmark.instances.files import scan

    scanned = isinstance(content, scan.Scanned)
    try:
        document = content.document() if scanned else content
    except TooLarge:
        _refuse_too_large(content.text, source, track)
        raise
    if track is None:
        found = [name for name in tracks() if track_module(name).recognises(document)]
        if not found:
            expected = f"expected an instance of one of the tracks {', '.join(tracks())}, found {_found(document)}"
            raise InputError(source, "", expected)
        track = found[0]
    module = track_module(track)
    if scanned and content.leaves and not getattr(module, "RAGGED", False):
        raise scan.Unsupported(f"{track} takes lists only")
    given = {key: value for key, value in options.items() if value is not None}
    for key in given:
        if key not in module.OPTIONS:
            raise UnknownOption(source, f"option {key}", _expected_option(track, key, module.OPTIONS))
    return module.parse(document, source, **given)


def _expected_option(track: str, name: str, known: Iterable[str]) -> str:
    """Say which options a track has, and which of them an unknown name may stand for."""
    from shardmark.instances.catalog import near_miss

    names = ", ".join(known)
    if not names:
        return f"expected no option: {track} has none"
    return f"expected an option of {track}: {names}{near_miss(name, known)}"


def _found(document: Any) -> str:
    """Describe a document that no track recognises."""
    from shardmark.instances.files.columns import describe

    if not isinstance(document, dict):
        return describe(document)
    content = f"the format {describe(document['format'])}" if "format" in document else "no key 'format'"
    return f"an object with {content}"


def load(path: str | os.PathLike[str], track: str | None = None, **options: Any) -> Any:
    """Read an instance file, plain or gzip; see `parse`. Large ones are cached as arrays, see `array_cache`."""
    return _load(path, track, options)[0]


def load_hashed(
    path: str | os.PathLike[str], track: str | None = None, *, keep: bool = True, **options: Any
) -> tuple[Any, str]:
    """Like `load`; also return the SHA-256 of the decompressed content. ``keep`` allows caching as arrays."""
    instance, checksum = _load(path, track, options, hashed=True, keep=keep)
    assert checksum is not None
    return instance, checksum


def _load(
    path: str | os.PathLike[str],
    track: str | None,
    options: Mapping[str, Any],
    *,
    hashed: bool = False,
    keep: bool = True,
) -> tuple[Any, str | None]:
    """Return the instance and, if ``hashed``, the checksum."""
    from shardmark.instances.files import array_cache

    source, mode = os.fspath(path), array_cache.mode()
    if source.endswith(MODELS):
        raise InputError(source, "", "expected an instance, found a model: `shardmark plan` and `import` read these")
    if mode == "on" and not keep:
        mode = "read"
    if os.path.isfile(path):  # a pipe can be read only once
        with _general_reader_as_fallback(source):
            return array_cache.read(path, lambda scanned: _build(scanned, source, track, options), mode, hashed=hashed)
    content = read_bytes(path)
    return parse(content, source, track, **options), sha256(content) if hashed else None


def save(instance: Any, path: str | os.PathLike[str]) -> None:
    """Write an instance to a file in its track's format; gzip when the name ends in ``.gz``."""
    write_json(path, track_module(instance.track).to_document(instance))
