"""TOML files of users, read with errors in one sentence."""

from __future__ import annotations

import os
import tomllib
from typing import Any

from shardmark.instances.errors import InputError
from shardmark.instances.files.jsonfile import decode, read_bytes

LARGEST = 1 << 20  # bytes of a TOML file


def load_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a TOML file; raise InputError if it is none, or has more than `LARGEST` bytes."""
    text = decode(read_bytes(path, LARGEST), path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(path, "", f"expected TOML ({error})") from None
    except RecursionError:
        raise InputError(path, "", "expected less deeply nested TOML") from None
    except ValueError:  # of Python's, for an integer that is too long
        raise InputError(path, "", "expected numbers of at most 4300 digits") from None
