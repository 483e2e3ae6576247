"""Redirects to stderr what libraries print to stdout whatever their options say."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def silent() -> Iterator[None]:
    """Send to stderr what compiled code prints to stdout."""
    library = ctypes.CDLL(None)  # its buffer may hold earlier output, or the library's
    library.fflush(None)
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        library.fflush(None)
        os.dup2(stdout, 1)
        os.close(stdout)
