"""Files that are small until they are read: every reader limits parts as well as bytes, and says so in one sentence."""

from __future__ import annotations

import gzip
import json
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from referee import refusal, refused

from shardmark.instances import InputError, load, save, tracks
from shardmark.instances.errors import TooLarge
from shardmark.instances.files import jsonfile, scan
from shardmark.instances.files.jsonfile import parse_json, parts_of, read_json
from shardmark.instances.importers import _text_proto
from shardmark.solvers import external

#: Texts that, repeated, take much more memory than they have characters.
REPEATED = {
    "empty lists": "[],",
    "empty objects": "{},",
    "objects of one key": '{"a":0},',
    "integers": "0,",
    "lists of an integer": "[0],",
    "lists of lists": "[[]],",
    "empty texts": '"",',
}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that are much smaller than usual, and a parser that must not even begin with more."""
    parse = json.loads

    def loads(text: str, **given: Any) -> Any:
        assert parts_of(text) <= 500, "a text with too many parts is parsed"
        return parse(text, **given)

    monkeypatch.setattr(jsonfile, "MAX_VALUES", 500)
    monkeypatch.setattr(scan, "MAX_INTEGERS", 700)
    monkeypatch.setattr(_text_proto, "MAX_VALUES", 500)
    monkeypatch.setattr(json, "loads", loads)


def bomb(path: Path, part: str, *, packed: bool, count: int = 1000) -> Path:
    """A file of a part many times over."""
    content = f"[{part * count}0]".encode()
    path.write_bytes(gzip.compress(content) if packed else content)
    return path


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("track", [None, *tracks()])
@pytest.mark.parametrize("part", REPEATED.values(), ids=list(REPEATED))
def test_an_instance_of_too_many_parts_is_refused_before_it_is_parsed(part, track, packed, tmp_path):
    path = bomb(tmp_path / "bomb.json", part, packed=packed)
    with pytest.raises(TooLarge) as caught:
        load(path, track)
    assert str(caught.value) in (
        f"{path}: expected at most 500 values and keys",
        f"{path}: expected at most 700 integers and rows in lists of lists",
    )


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "arguments",
    [
        ["info", "FILE"],
        ["solve", "FILE", "--solver", "greedy"],
        ["check", "chain", "FILE"],
        ["import", "placement", "FILE", "--stages", "2", "--output", "OUT"],
        ["import", "to-scheduling", "FILE", "--output", "OUT"],
        ["import", "to-scheduling", "chain", "--machine", "FILE", "--output", "OUT"],
        ["import", "graph-def", "PROTO", "--output", "OUT"],
        ["import", "cost-graph", "PROTO", "--stages", "2", "--output", "OUT"],
    ],
    ids=lambda arguments: " ".join(arguments[:3]),
)
def test_a_command_that_reads_too_many_parts_ends_in_one_sentence(arguments, tmp_path):
    bomb(tmp_path / "FILE", "[],", packed=True)
    (tmp_path / "PROTO").write_text("node{}" * 1000)
    names = {name: tmp_path / name for name in ("FILE", "PROTO", "OUT")}
    message = refused(*(names.get(word, word) for word in arguments))
    assert message.count("\n") == 1
    assert message.startswith(f"shardmark: {tmp_path}/")
    assert message.endswith(
        ("500 values and keys\n", "500 values and messages\n", "700 integers and rows in lists of lists\n")
    )
    assert not (tmp_path / "OUT").exists()


def test_a_file_at_the_limits_is_read_and_one_above_is_not(monkeypatch):
    monkeypatch.setattr(jsonfile, "MAX_VALUES", 6)
    assert parse_json("[1,2,3,4,5,6]", "x") == [1, 2, 3, 4, 5, 6]
    with pytest.raises(TooLarge, match="x: expected at most 6 values and keys"):
        parse_json("[1,2,3,4,5,6,7]", "x")
    monkeypatch.setattr(jsonfile, "LARGEST_TEXT", 10)
    assert jsonfile.decode(b"0123456789", "x") == "0123456789"
    with pytest.raises(TooLarge, match="expected only lists of lists of integers in a file of over 10 bytes"):
        jsonfile.decode(b"0123456789a", "x")
    monkeypatch.setattr(scan, "MAX_INTEGERS", 6)
    assert scan.scan([b"[[1,2],[3]]"]).value.tolist() == [1, 2, 3]
    with pytest.raises(TooLarge, match="expected at most 6 integers and rows"):
        scan.scan([b"[[1,2],[3,4]]"])


def test_lists_of_lists_of_integers_may_be_longer_than_other_texts(monkeypatch, tmp_path):
    """Only what becomes Python objects is held to the limit of texts."""
    monkeypatch.setattr(jsonfile, "LARGEST_TEXT", 300)
    nodes = {"intervals": [[0, 1]] * 100, "costs": [[1]] * 100, "usages": [[2]] * 100}
    document = {"problem": {"name": "x", "nodes": nodes, "edges": {"nodes": [], "costs": []}}}
    path = tmp_path / "long.json"
    path.write_text(json.dumps(document))
    assert load(path).nodes == 100
    save(load(path), tmp_path / "long.json.gz")
    assert load(tmp_path / "long.json.gz").nodes == 100
    nodes["costs"][70] = [1.5]
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="expected only lists of lists of integers in a file of over 300 bytes"):
        load(path)


def test_a_text_outside_the_lists_that_is_too_long_is_not_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(jsonfile, "LARGEST_TEXT", 300)
    (tmp_path / "a.json").write_text(json.dumps({"problem": {"comment": "x" * 301, "nodes": [[1, 2]]}}))
    with pytest.raises(InputError, match="in a file of over 300 bytes"):
        load(tmp_path / "a.json")
    with pytest.raises(InputError, match="expected at most 300 bytes, compressed or not"):
        read_json(tmp_path / "a.json")


JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def count(value: Any) -> int:
    """The values and keys that are in a value."""
    if isinstance(value, dict):
        return sum(2 + count(inner) for inner in value.values())
    return sum(1 + count(inner) for inner in value) if isinstance(value, list) else 0


@given(JSON)
def test_no_part_of_a_text_goes_uncounted(value):
    assert parts_of(json.dumps(value)) >= count(value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = " + "[" * 100_000, "expected less deeply nested TOML"),
        ("a = " + "9" * 5000, "expected numbers of at most 4300 digits"),
        ("#" * (1 << 20) + "\n", "expected at most 1048576 bytes, compressed or not"),
        ("a = 1\na = 2", "expected TOML (Cannot overwrite a value"),
        ("\ufeff[[solver]]", "solver 1: expected a key 'name'"),
        ("[[solver]]\nname = 'x\0y'", "expected TOML ("),
    ],
    ids=["nested", "digits", "bytes", "twice", "byte order mark", "null byte"],
)
def test_a_toml_file_that_is_no_list_of_programs_is_one_sentence(text, expected, tmp_path):
    path = tmp_path / "some.toml"
    path.write_text(text, encoding="utf-8")
    message = refusal(external.read_toml, path)
    assert message.startswith(f"{path}: ")
    assert expected in message
    assert len(message) < 400


def test_sentences_show_the_beginning_of_long_names_only(tmp_path):
    long = "k" * 100_000
    for text in (f'{{"problem": {{}}, "{long}": 1}}', f'{{"{long}": 1, "{long}": 2}}', f'{{"format": "{long}"}}'):
        (tmp_path / "a.json").write_text(text)
        assert len(refusal(load, tmp_path / "a.json")) < 400


def test_more_devices_than_a_matrix_of_bandwidths_is_kept_for_are_refused(tmp_path):
    """One number for all bandwidths becomes a matrix: 60,000 devices in 120 KB took 27 GiB."""
    document = {"format": "shardmark/scheduling/1", "nodes": {"complexity": [1]}, "edges": [], "bandwidth": 1}
    path = tmp_path / "wide.json"
    path.write_text(json.dumps(document | {"devices": {"speed": [1] * 4096}}))
    assert load(path).devices == 4096
    path.write_text(json.dumps(document | {"devices": {"speed": [1] * 60_000}}))
    with pytest.raises(InputError, match=r"devices\.speed: expected at most 4096 devices, found 60000"):
        load(path)


@pytest.fixture
def little_address_space() -> Iterator[None]:
    """As after `ulimit -v`: 64 MiB more than the process has mapped."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + (64 << 20), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_reading_reserves_no_more_memory_than_a_file_takes(
    pack: Callable[[bytes], bytes], tmp_path: Path, little_address_space: None
) -> None:
    (tmp_path / "small").write_bytes(pack(b"content"))
    assert jsonfile.read_bytes(tmp_path / "small") == b"content"


def test_a_file_that_memory_cannot_hold_is_refused_in_one_sentence(tmp_path: Path, little_address_space: None) -> None:
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 1 << 30)
    with pytest.raises(TooLarge, match=r"large: expected more free memory: the file has over \d+ MiB"):
        jsonfile.read_bytes(tmp_path / "large")
