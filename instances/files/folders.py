"""Folders that appear complete or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shardmark.instances.errors import InputError


@contextmanager
def replaced_folder(path: Path, mark: str) -> Iterator[Path]:
    """Yield a temporary folder in the parent of ``path``, and rename it to ``path`` if the block ends without an error.

    A folder at ``path`` is replaced if it is empty or holds a file ``mark``, else InputError. After an error nothing
    has changed; a kill leaves at most a hidden folder ``.NAME.*``.
    """
    target = path.absolute()
    try:
        if target.exists() and not (target / mark).exists() and any(target.iterdir()):
            raise InputError(path, "", f"expected a new folder, an empty one, or one with an earlier {mark}")
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    except OSError as error:
        raise _unwritable(path, error) from None
    staged = temporary / "new"
    try:
        staged.mkdir()
        yield staged
        if target.exists():
            os.rename(target, temporary / "old")
        os.rename(staged, target)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(path, "", f"expected a folder that can be written ({error.strerror})")
