"""The bytes of a run's folders, however deep these are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from shardmark.harness.sandbox.meters.folders import filesystem_bytes, flatten, folder_bytes

MIB = 1 << 20


def test_bytes_in_a_folder_are_added_up(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one").write_bytes(b"x" * MIB)
    (tmp_path / "two").write_bytes(b"x" * MIB)
    (tmp_path / "link").symlink_to(sys.executable)
    (tmp_path / "away").symlink_to("/usr")
    folder = os.open(tmp_path, os.O_RDONLY)
    assert folder_bytes(folder) == 2 * MIB
    assert folder_bytes(folder, 1) <= MIB
    assert filesystem_bytes(folder) > 0
    os.close(folder)


def test_folders_are_entries_and_may_lie_deep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in range(100):
        os.mkdir(str(name))
    Path("50", "file").write_bytes(b"x" * MIB)
    folder = os.open(tmp_path, os.O_RDONLY)
    assert (folder_bytes(folder, 101), folder_bytes(folder, 100)) == (MIB, 0)
    for _ in range(3000):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(tmp_path)
    assert folder_bytes(folder) == MIB
    flatten(folder)
    os.close(folder)
    assert max(len(path.relative_to(tmp_path).parts) for path in tmp_path.rglob("*")) == 2
