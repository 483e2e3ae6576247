"""The input of an external program: its command with placeholders filled in, and its copy of the instance."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from pathlib import Path

from shardmark.harness.sandbox.contract import Order
from shardmark.instances import InputError, parse, save
from shardmark.instances.files.jsonfile import GZIP_MAGIC, read_bytes, sha256

CHUNK = 1 << 20  # bytes that are copied at once


def fill_command(order: Order, instance: Path) -> list[str]:
    """Return the words of the command, with ``FILE SECONDS`` appended if it names neither instance nor timeout."""
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
    """Write a run's instance to ``folder``, decompressed and with its options; return the path.

    It is a copy because the program may change it. InputError if the original cannot be read or has changed since the
    campaign began.
    """
    target = folder / f"{Path(order.instance).name.removesuffix('.gz').removesuffix('.json')}.json"
    if order.options:
        content = read_bytes(order.instance)
        checksum = sha256(content)
        save(parse(content, order.instance, order.track, **order.options), target)
    else:
        checksum = _decompress(order.instance, target)
    if checksum != order.checksum:
        raise InputError(order.instance, "", "expected the content that was first read, but the file has changed")
    return target


def _decompress(source: str, target: Path) -> str:
    """Copy a file, decompressed; return the SHA-256 of the copy."""
    digest = hashlib.sha256()
    try:
        with open(source, "rb") as original, target.open("wb") as copy:
            compressed = original.read(2) == GZIP_MAGIC
            original.seek(0)
            stream = gzip.GzipFile(fileobj=original) if compressed else original
            while chunk := stream.read(CHUNK):
                digest.update(chunk)
                copy.write(chunk)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(source, "", f"expected a file that can be read and copied ({error})") from None
    return digest.hexdigest()
