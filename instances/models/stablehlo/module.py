"""Bytes of a file as a module of MLIR's bindings, which come with jaxlib.

MLIR guards against mistakes, not against malice: a number in the billions in the dimensions of a convolution keeps it
busy forever, and changed bytes of an artifact may crash it. `shardmark.instances.models.stablehlo.apart` therefore
parses files in a process of its own.
"""

from __future__ import annotations

import re
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.files.jsonfile import line_and_column

#: The first bytes of MLIR's bytecode, in which portable artifacts are written.
MAGIC = b"ML\xefR"

#: Brackets within each other, at most. MLIR's parser calls itself for each, and fills 8 MiB of stack with some 4,000.
DEEPEST = 1000

_BRACKETS = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|//[^\n]*|->|[<>]=|([\[({<])|([\])}>])')
_ERROR = re.compile(r'error: "[^"]*":(\d+):(\d+): (.*)')


def is_stablehlo(content: bytes) -> bool:
    """True if a file's content is an artifact, also within what ``Exported.serialize`` writes, or text of a module."""
    return (
        MAGIC in content[: 1 << 20] or re.search(rb"^\s*module\b|\bstablehlo\.", content[: 1 << 20], re.M) is not None
    )


def parse(content: bytes, source: str) -> Any:
    """The `jaxlib.mlir.ir.Module` of MLIR text, of a portable artifact, or of what `jax.export` serialises.

    InputError in one sentence if jax is missing or the content is none of these; MLIR's own messages are not printed.
    """
    program = artifact(content, source) if MAGIC in content else text(content, source)
    try:
        from jax.interpreters.mlir import make_ir_context
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import stablehlo
    except ModuleNotFoundError:
        raise InputError(source, "", "expected jax, which reads StableHLO: pip install jax") from None
    except (ImportError, OSError) as error:  # as when its libraries do not fit the address space
        raise InputError(source, "", f"expected jax, which reads StableHLO, to be importable ({error})") from None
    messages: list[str] = []

    def note(diagnostic: Any) -> bool:
        try:
            messages.append(diagnostic.message)
        except RuntimeError:  # the message quotes bytes that are no text
            messages.append("damaged content")
        return True

    with make_ir_context() as context:
        handler: Any = context.attach_diagnostic_handler(note)
        try:
            if isinstance(program, bytes):
                return stablehlo.deserialize_portable_artifact(context, program)
            return ir.Module.parse(program, context)
        except ir.MLIRError as error:
            raise explained(str(error), source) from None
        except ValueError:
            found = f": {messages[0]}" if messages else ""
            raise InputError(source, "", f"expected a complete portable artifact of StableHLO{found}") from None
        finally:
            handler.detach()


def artifact(content: bytes, source: str) -> bytes:
    """The portable artifact, cut out of the FlatBuffer that ``jax.export.Exported.serialize`` writes around it."""
    start = content.index(MAGIC)
    if start == 0:
        return content
    size = int.from_bytes(content[max(start - 4, 0) : start], "little")
    if not 0 < size <= len(content) - start:
        raise InputError(source, "", "expected a portable artifact of StableHLO, found one that is cut off")
    return content[start : start + size]


def text(content: bytes, source: str) -> str:
    """MLIR text, which has a module or a function at the least."""
    try:
        found = content.decode()
    except UnicodeDecodeError:
        raise InputError(source, "", "expected StableHLO, as text or as a portable artifact") from None
    if not re.search(r"\bfunc\b|\bmodule\b", found):
        raise InputError(source, "", "expected StableHLO, as text with a module or as a portable artifact")
    _require_shallow(found, source)
    return found


def _require_shallow(found: str, source: str) -> None:
    """Raise InputError for deeper brackets than MLIR's parser survives; those in strings and comments do not count."""
    depth = 0
    for token in _BRACKETS.finditer(found):
        if token[1]:
            depth += 1
            if depth > DEEPEST:
                place = line_and_column(found, token.start())
                raise InputError(source, place, f"expected at most {DEEPEST:,} brackets within each other")
        elif token[2]:
            depth -= 1


def explained(error: str, source: str) -> InputError:
    """MLIR's error in one sentence, with its place."""
    found = _ERROR.search(error)
    if found is None:
        return InputError(source, "", "expected StableHLO that MLIR can parse")
    line, column, message = found.groups()
    return InputError(source, f"line {line}, column {column}", f"expected StableHLO, but MLIR says: {message.strip()}")
