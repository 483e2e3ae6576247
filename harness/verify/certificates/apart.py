"""Checks a certificate in a process of its own, under limits of time and memory.

The process reads the instance itself and answers with one line of JSON. A certificate can make a check long or large;
the process that asks for the check is affected by neither.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from shardmark.harness.verify import certificates
from shardmark.harness.verify.certificates import Finding
from shardmark.instances import InputError, load_hashed
from shardmark.instances.files.jsonfile import encode

SECONDS = 120.0  # of a check; the longest of the catalog's takes a tenth of this
MEMORY_MIB = 4096  # address space of the process
START_S = 60.0  # for starting the process and reading the instance, in addition


def check(
    path: str | os.PathLike[str],
    track: str,
    options: Mapping[str, Any],
    content: str,
    checksum: str,
    document: Mapping[str, Any],
    seconds: float = SECONDS,
) -> Finding:
    """Check a certificate, which has the form of one, for the instance in a file; ``proven`` is rounded down.

    ``content`` is the SHA-256 that the file must have, ``checksum`` the identity of content, track and options. If the
    process is ended by a limit or fails, nothing is proven and the reason says so.
    """
    about = {"path": os.fspath(path), "track": track, "options": dict(options), "content": content}
    try:
        order = encode({**about, "checksum": checksum, "seconds": seconds, "certificate": document})
    except (ValueError, RecursionError):  # such as 1e999, which is read as infinite
        return Finding(document["bound"], None, "expected a proof of finite numbers, less deeply nested")
    command = [sys.executable, "-P", "-m", __name__]
    try:
        ended = subprocess.run(command, input=order, capture_output=True, timeout=seconds + START_S, check=False)
        answer = json.loads(ended.stdout)
    except subprocess.TimeoutExpired:
        return Finding(document["bound"], None, f"expected a check of at most {seconds:g} s")
    except ValueError:
        words = f"expected a check that ends with a finding, in {MEMORY_MIB} MiB of memory; its process ended with"
        return Finding(document["bound"], None, f"{words} status {ended.returncode}")
    proven = answer["proven"]
    return Finding(document["bound"], None if proven is None else Fraction(proven), answer["reason"])


def main() -> None:
    """Check the certificate that the standard input orders, and print what was found."""
    limit = MEMORY_MIB << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    order = json.load(sys.stdin)
    seconds = math.ceil(order["seconds"] + START_S)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    found = _check(order)
    print(json.dumps({"proven": found.proven_number, "reason": found.reason}))


def _check(order: Mapping[str, Any]) -> Finding:
    """Read the instance and check the certificate of an order."""
    document = order["certificate"]
    try:
        instance, content = load_hashed(order["path"], order["track"], keep=False, **order["options"])
    except InputError as error:
        return Finding(document["bound"], None, str(error))
    if content != order["content"]:
        return Finding(document["bound"], None, "expected the instance that was first read, but its file has changed")
    return certificates.check(instance, order["checksum"], document, order["seconds"])


if __name__ == "__main__":
    main()
