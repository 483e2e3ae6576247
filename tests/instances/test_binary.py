"""Arrays in the user's cache: used when all is right, made anew when anything is not, never the cause of a failure."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardmark import instances
from shardmark.instances import InputError, catalog, intraop, load, load_hashed
from shardmark.instances.files import array_cache, scan


def document(cost: int = 10) -> dict[str, Any]:
    return {
        "problem": {
            "name": "kept",
            "nodes": {"intervals": [[0, 4], [1, 6]], "costs": [[cost, 20], [30]], "usages": [[1, 2], [4]]},
            "edges": {"nodes": [[0, 1]], "costs": [[40, 50]]},
            "usage_limit": 7,
        }
    }


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch, tmp_path):
    """Arrays of any size are kept; the user's cache is a folder of the test."""
    monkeypatch.setattr(array_cache, "MIN_BYTES", 0)
    monkeypatch.setenv("SHARDMARK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(array_cache.VARIABLE, raising=False)


@pytest.fixture
def path(tmp_path):
    """A file whose arrays are not yet kept."""
    path = tmp_path / "folder" / "a.json"
    path.parent.mkdir()
    path.write_text(json.dumps(document()))
    return path


@pytest.fixture
def scans(monkeypatch):
    """A list that grows by one whenever a text is taken apart."""
    calls = []
    real = scan.scan
    monkeypatch.setattr(array_cache, "scan", lambda pieces: calls.append(1) or real(pieces))
    return calls


def arrays(path: Path) -> Path:
    """Return the folder in which the arrays of a file are kept."""
    place = catalog.place_of_arrays(path)
    assert place is not None
    return place


def costs(path: Path) -> list[int]:
    return load(path).node_cost.tolist()


def test_the_second_reading_maps_what_the_first_one_kept(path, scans):
    first, second = load(path), load(path)
    assert scans == [1]
    for field in dataclasses.fields(intraop.Instance):
        assert np.array_equal(getattr(first, field.name), getattr(second, field.name)), field.name
    assert not second.table.flags.writeable
    with pytest.raises(ValueError, match=r"(?i)writeable"):
        second.table.flags.writeable = True
    assert "mmap" in repr(origin(second.table))
    assert arrays(path).stat().st_mode & 0o777 == 0o600


def test_no_cache_file_is_written_or_read_in_a_files_folder(path, scans, tmp_path):
    """At d88b055 the arrays of a file lay in its folder: 290 MB for 25 MB of contest files."""
    earlier = path.with_name("a.json.arrays")
    earlier.write_bytes(b"shardmark arrays of an earlier version")
    load(path)
    load(path)
    assert scans == [1]
    assert {p.name for p in path.parent.iterdir()} == {"a.json", "a.json.arrays"}
    assert earlier.read_bytes() == b"shardmark arrays of an earlier version"
    assert list((tmp_path / "cache").rglob("*.*")) == []
    assert list((tmp_path / "cache" / "arrays").iterdir()) == [arrays(path)]


def origin(array: Any) -> Any:
    """The object whose memory an array shows."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array.obj if isinstance(array, memoryview) else array


def test_a_changed_file_is_read_again_even_if_it_looks_the_same(path, scans):
    before = path.stat()
    assert costs(path) == [10, 20, 30]
    path.write_text(json.dumps(document(cost=11)))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    assert costs(path) == [11, 20, 30]
    assert costs(path) == [11, 20, 30]
    assert scans == [1, 1]


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def places(size: int) -> list[int]:
    """The front, the header, and a byte of each section."""
    return [
        *range(0, 900, 23),
        *range(array_cache.PAGE, size, array_cache.PAGE),
        *range(array_cache.PAGE + 7, size, array_cache.PAGE),
    ]


def test_a_flipped_bit_anywhere_is_noticed(path, scans):
    load(path)
    good = arrays(path).read_bytes()
    used = len(good.rstrip(b"\0"))
    for at in places(used):
        if good[at]:  # what lies between the sections is none of them
            arrays(path).write_bytes(flipped(good, at))
            scans.clear()
            assert costs(path) == [10, 20, 30], at
            assert scans == [1], at
            scans.clear()
            assert costs(path) == [10, 20, 30]
            assert scans == [], "made anew, it serves again"


def rewritten(path: Path, change: Any) -> None:
    """Change the header of the arrays, and its checksum with it."""
    content = arrays(path).read_bytes()
    length = int.from_bytes(content[48:56], "little")
    header = json.loads(content[56 : 56 + length])
    text = change(header) or json.dumps(header)
    encoded = text.encode().ljust(length)
    front = content[:16] + hashlib.sha256(encoded).digest() + len(encoded).to_bytes(8, "little")
    arrays(path).write_bytes((front + encoded).ljust(array_cache.PAGE, b"\0") + content[array_cache.PAGE :])


CHANGES = {
    "an older version": lambda h: h.update(version=array_cache.VERSION - 1),
    "a newer version": lambda h: h.update(version=array_cache.VERSION + 1),
    "another machine": lambda h: h.update(byteorder="big" if sys.byteorder == "little" else "little"),
    "no version": lambda h: h.pop("version") and None,
    "no sections": lambda h: h.update(sections=[]),
    "sections that are numbers": lambda h: h.update(sections=5),
    "a length that is huge": lambda h: h["sections"][0].__setitem__(0, 2**70),
    "a length below 0": lambda h: h["sections"][0].__setitem__(0, -8),
    "leaves of something": lambda h: h.update(leaves=[["a", None, 1]]),
    "fewer leaves": lambda h: h["leaves"].pop() and None,
    "a row too many": lambda h: h["leaves"][0].__setitem__(0, h["leaves"][0][0] + 1),
    "rows that take turns": lambda h: h["leaves"].reverse(),
    "a seed that is none": lambda h: h.update(seed="xyz"),
    "another key": lambda h: h.update(key="5:00"),
    "a list": lambda h: "[]",
    "nested too deeply": lambda h: "[" * 5000,
    "not JSON": lambda h: "{",
}


LENGTHS = [0, 1, 16, 55, 56, 300, 4095, 4096, 4100, 8192, 12288, -1]


@pytest.mark.parametrize("defect", [*LENGTHS, *CHANGES])
def test_a_file_cut_off_or_with_a_header_that_is_not_ours_is_made_anew(path, scans, defect):
    load(path)
    if defect in CHANGES:
        rewritten(path, CHANGES[defect])
    else:
        arrays(path).write_bytes(arrays(path).read_bytes().rstrip(b"\0")[:defect])
    for _ in range(2):
        assert costs(path) == [10, 20, 30]
        assert scans == [1, 1]


def test_the_header_that_is_ours_is_believed(path, scans):
    load(path)
    rewritten(path, lambda header: None)
    assert costs(path) == [10, 20, 30]
    assert scans == [1]


def kept_by_a_liar(path: Path, change: Any) -> None:
    """Arrays of something else, with right digests, as kept for a file."""
    digest = scan.Digest(bytes(32))
    true = scan.scan(scan.on_disk(path, digest))
    arrays(path).parent.mkdir(parents=True)
    array_cache._write(arrays(path), change(true), digest, None)


LIES = {
    "rows that run backwards": lambda s: dataclasses.replace(s, start=s.start[::-1].copy()),
    "rows beyond the end": lambda s: dataclasses.replace(s, start=s.start + 1000),
    "fewer integers": lambda s: dataclasses.replace(s, value=s.value[:-1].copy()),
    "no integers": lambda s: dataclasses.replace(s, value=s.value[:0].copy()),
    "a text that is not JSON": lambda s: dataclasses.replace(s, text=b"{"),
    "a text of fewer lists": lambda s: dataclasses.replace(s, text=b"{}"),
    "a text of more lists": lambda s: dataclasses.replace(s, text=s.text.replace(b"7", b"NaN")),
    "no text": lambda s: dataclasses.replace(s, text=b""),
    "costs below 0": lambda s: dataclasses.replace(s, value=-s.value),
    "nodes that are none": lambda s: dataclasses.replace(s, value=s.value * 100),
}


@pytest.mark.parametrize("lie", LIES)
def test_arrays_that_are_no_instance_are_not_taken(path, scans, lie):
    kept_by_a_liar(path, LIES[lie])
    assert costs(path) == [10, 20, 30]
    assert scans == [1]


def test_who_may_write_arrays(path, scans, monkeypatch):
    load(path)
    for mode in (0o620, 0o602, 0o666):
        arrays(path).chmod(mode)
        load(path)
    assert len(scans) == 4
    load(path)
    assert len(scans) == 4
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    load(path)
    assert len(scans) == 5


@pytest.mark.parametrize("kind", ["a folder", "a pipe", "a link to the right one", "a link to nothing"])
def test_what_is_no_file_in_the_place_of_arrays(path, scans, kind, tmp_path):
    load(path)
    place = arrays(path)
    place.rename(tmp_path / "moved")
    if kind == "a folder":
        place.mkdir()
    elif kind == "a pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(tmp_path / ("moved" if "right" in kind else "none"))
    assert costs(path) == [10, 20, 30]
    assert scans == [1, 1]
    assert costs(path) == [10, 20, 30]
    assert scans == [1, 1] + [1] * (kind == "a folder")  # which stays


def test_nowhere_to_write_is_no_error(path, scans, tmp_path):
    (tmp_path / "cache").write_text("not a folder")
    assert costs(path) == costs(path) == [10, 20, 30]
    assert scans == [1, 1]


def test_a_user_without_a_home_has_no_cache(path, scans, monkeypatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("SHARDMARK_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert costs(path) == costs(path) == [10, 20, 30]
    assert scans == [1, 1]


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """Three files, the first of them kept, and the user's cache, which has room for the arrays of two and a half."""
    files = [tmp_path / f"{name}.json" for name in "abc"]
    for cost, file in enumerate(files):
        file.write_text(json.dumps(document(cost)))
    cache = tmp_path / "cache" / "arrays"
    load(files[0])
    (kept,) = cache.iterdir()
    monkeypatch.setattr(array_cache, "MAX_BYTES", 5 * kept.stat().st_size // 2)
    return files, cache


def used_at(files: list[Path], *times: float) -> None:
    """Let the arrays of files have been used last at these times."""
    for file, time in zip(files, times, strict=True):
        os.utime(arrays(file), (time, time))


def test_what_was_not_used_for_longest_leaves_a_full_cache(cached, scans):
    (a, b, c), cache = cached
    instance = load(b)
    used_at([a, b], 2e9, 1e9)
    load(c)
    assert scans == [1, 1]
    load(a)
    assert scans == [1, 1]
    assert instance.node_cost.tolist() == [1, 20, 30]  # it still has what it has mapped
    load(b)
    assert scans == [1, 1, 1]
    assert len(list(cache.iterdir())) == 2


def test_what_is_read_is_used_unless_nothing_is_to_be_written(cached, scans, monkeypatch):
    (a, b, c), _ = cached
    load(b)
    for mode, gone in (("on", b), ("read", a)):
        used_at([a, b], 1e9, 1e9 + 1)
        monkeypatch.setenv(array_cache.VARIABLE, mode)
        load(a)
        monkeypatch.setenv(array_cache.VARIABLE, "on")
        arrays(c).unlink(missing_ok=True)
        load(c)
        scans.clear()
        load(b if gone == a else a)
        assert scans == [], mode
        load(gone)
        assert scans == [1], mode


def test_what_is_larger_than_the_cache_may_be_drives_nothing_out(cached, scans, monkeypatch):
    (a, b, _), cache = cached
    monkeypatch.setattr(array_cache, "MAX_BYTES", 100)
    load(b)
    assert len(list(cache.iterdir())) == 1
    load(a)
    assert scans == [1]


def test_a_cache_loses_what_was_left_by_processes_that_were_killed(cached):
    (_, b, _), cache = cached
    old, new = cache / ".one.old", cache / ".two.new"
    for left in (old, new):
        left.write_bytes(b"shardmark arrays")
    os.utime(old, (1e9, 1e9))
    load(b)
    assert (old.exists(), new.exists(), len(list(cache.iterdir()))) == (False, True, 3)


def test_a_full_disk_and_an_end_halfway_leave_nothing_behind(path, monkeypatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    def stopped(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", full)
    assert costs(path) == [10, 20, 30]
    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        load(path)
    assert list(arrays(path).parent.iterdir()) == []


def test_without_a_second_thread_the_file_is_read(path, monkeypatch):
    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    load(path)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert costs(path) == [10, 20, 30]


def test_a_run_uses_arrays_and_keeps_none(path, scans):
    load_hashed(path, keep=False)
    assert not arrays(path).exists()
    load_hashed(path)
    load_hashed(path, keep=False)
    assert scans == [1, 1]


def test_a_disk_that_it_would_half_fill_is_left_alone(path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 400}))
    load(path)
    assert list(arrays(path).parent.iterdir()) == []


def test_switched_off_or_only_read(path, scans, monkeypatch):
    monkeypatch.setenv(array_cache.VARIABLE, "off")
    load(path)
    monkeypatch.setenv(array_cache.VARIABLE, "read")
    load(path)
    assert not arrays(path).exists()
    monkeypatch.setenv(array_cache.VARIABLE, "on")
    load(path)
    assert arrays(path).exists()
    monkeypatch.setenv(array_cache.VARIABLE, "read")
    load(path)
    assert len(scans) == 3
    monkeypatch.setenv(array_cache.VARIABLE, "off")
    load(path)
    assert len(scans) == 4
    monkeypatch.setenv(array_cache.VARIABLE, "maybe")
    with pytest.raises(InputError, match="SHARDMARK_ARRAYS: 'maybe': expected on, read or off"):
        load(path)


def test_small_instances_are_not_kept(path, monkeypatch):
    monkeypatch.setattr(array_cache, "MIN_BYTES", 1000)
    load(path)
    assert not arrays(path).exists()


def test_the_checksum_is_that_of_the_decompressed_content(tmp_path, scans):
    path = tmp_path / "a.json.gz"
    content = json.dumps(document()).encode()
    path.write_bytes(gzip.compress(content))
    load(path)  # keeps arrays without it
    for _ in range(3):
        assert load_hashed(path)[1] == hashlib.sha256(content).hexdigest()
    assert scans == [1, 1]
    path.write_bytes(gzip.compress(content, compresslevel=1))
    assert load_hashed(path)[1] == hashlib.sha256(content).hexdigest()
    path.write_bytes(b'\xef\xbb\xbf{"problem": 1.0}')
    with pytest.raises(InputError):
        load_hashed(path)


def test_arrays_of_what_the_file_was_before_do_not_stand_in_the_way(path, scans):
    load(path)
    other = {"format": "shardmark/pipeline/1", "stages": 2, "nodes": {"work": [1, 2], "output_size": [3, 4]}}
    path.write_text(json.dumps(other | {"edges": [[0, 1]]}))
    assert load(path, stages=3).stages == 3
    assert load(path, "pipeline").track == "pipeline"


def test_a_file_that_no_track_takes_is_not_kept(path):
    path.write_text(json.dumps(document(cost=-1)))
    with pytest.raises(InputError, match=r"nodes\.costs\[0\]\[0\]: expected at least 0, found -1"):
        load(path)
    assert not arrays(path).exists()


def test_a_file_that_goes_while_it_is_read(path, monkeypatch):
    load(path)

    def gone(*_: Any) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(array_cache, "_digest_of_file", gone)
    assert costs(path) == [10, 20, 30]


def test_a_link_shares_the_arrays_of_its_file(path, scans, tmp_path):
    (tmp_path / "link.json").symlink_to(path)
    load(tmp_path / "link.json")
    load(path)
    assert scans == [1]


def at_once(work: Callable[[int], None], threads: int = 6) -> None:
    """Do work in several threads, each with its number; raises what one of them did."""
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))


def test_readers_and_writers_at_the_same_time(path):
    def work(number: int) -> None:
        for _ in range(15):
            assert load(path).table.tolist() == [40, 50]
            with contextlib.suppress(FileNotFoundError):
                if number % 2:
                    arrays(path).unlink()

    at_once(work)
    assert [p.name for p in path.parent.iterdir()] == ["a.json"]
    assert set(arrays(path).parent.iterdir()) <= {arrays(path)}


def test_readers_and_writers_of_a_full_cache(cached):
    files, cache = cached

    def work(number: int) -> None:
        for turn in range(15):
            cost = (number + turn) % 3
            assert costs(files[cost]) == [cost, 20, 30]

    at_once(work)
    load(files[0])
    assert all(array_cache._read(place, files[0]) for place in cache.iterdir())


def test_arrays_stay_when_their_file_is_replaced(path):
    load(path)
    mapped = load(path)
    path.write_text(json.dumps(document(cost=11)))
    again = load(path)
    arrays(path).unlink()
    assert mapped.node_cost.tolist() == [10, 20, 30]
    assert again.node_cost.tolist() == [11, 20, 30]


@pytest.mark.parametrize("name", ["asplos-2025-iopddl-G.json.gz", "asplos-2025-iopddl-B.json.gz"])
def test_contest_files_are_the_same_from_their_arrays(name, mirror, tmp_path, scans):
    path = tmp_path / name
    path.write_bytes((mirror / "google/iopddl/benchmarks" / name).read_bytes())
    general = instances._build(instances.parse_json(gzip.decompress(path.read_bytes()).decode(), "x"), "x", None, {})
    for _ in range(2):
        found = load(path)
        for field in dataclasses.fields(intraop.Instance):
            if field.name != "source":
                assert np.array_equal(getattr(found, field.name), getattr(general, field.name)), field.name
    assert scans == [1]
