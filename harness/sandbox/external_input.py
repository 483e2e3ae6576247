"""What an external program gets: its command filled in, and the instance as a plain file of its own."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from pathlib import Path

from harness.sandbox.contract import Order
from instances import InputError, parse, save
from instances.files.jsonfile import GZIP_MAGIC, read_bytes, sha256

PIECE = 1 << 20


def fill_command(order: Order, instance: Path) -> list[str]:
    """The words of a command; without ``{instance}`` and ``{timeout}``, the contest's ``FILE SECONDS`` are appended."""
    limits = order.limits
    values = {
        "instance": str(instance),
        "timeout": f"{limits.timeout_s - limits.margin_s():g}",
        "seed": str(order.seed),
        "cores": str(limits.cores),
        "memory": f"{limits.memory_mib:g}",
    }
    words = list(order.command)
    if not any(name in word for word in words for name in ("{instance}", "{timeout}")):
        words += ["{instance}", "{timeout}"]
    return [re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], match[0]), word) for word in words]


def write_instance(order: Order, folder: Path) -> Path:
    """Write the instance of a run to ``folder``, decompressed and with its options in it; return the path.

    A copy, because a program may do to its file what it likes. InputError if the original can no longer be read or has
    changed since the campaign began.
    """
    target = folder / f"{Path(order.instance).name.removesuffix('.gz').removesuffix('.json')}.json"
    if order.options:
        content = read_bytes(order.instance)
        checksum = sha256(content)
        save(parse(content, order.instance, order.track, **order.options), target)
    else:
        checksum = _unpack(order.instance, target)
    if checksum != order.checksum:
        raise InputError(order.instance, "", "expected the content that the campaign began with, it has changed")
    return target


def _unpack(source: str, target: Path) -> str:
    """Copy a file, decompressed, a piece at a time; SHA-256 of what was written."""
    digest = hashlib.sha256()
    try:
        with open(source, "rb") as original, target.open("wb") as copy:
            packed = original.read(2) == GZIP_MAGIC
            original.seek(0)
            stream = gzip.GzipFile(fileobj=original) if packed else original
            while piece := stream.read(PIECE):
                digest.update(piece)
                copy.write(piece)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(source, "", f"expected a file that can be read and copied ({error})") from None
    return digest.hexdigest()
