"""Lists of integers that go straight into arrays are those that the general reader finds, or are left to it."""

from __future__ import annotations

import gzip
import json
import os
import random
import threading
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark import instances
from shardmark.instances import InputError, load, parse
from shardmark.instances.files import jsonfile, scan
from shardmark.instances.files.columns import Ragged
from shardmark.instances.files.jsonfile import decode, parse_json

PLAIN = {
    "problem": {
        "name": 'two [[1]] "nodes" \\',
        "nodes": {"intervals": [[0, 4], [1, 6]], "costs": [[3, 10**18], [2]], "usages": [[1, 2], [4]]},
        "edges": {"nodes": [[0, 1], [1]], "costs": [[4, 9], [0]]},
        "usage_limit": 7,
    }
}
PIPELINE = {
    "format": "shardmark/pipeline/1",
    "stages": 2,
    "nodes": {"work": [3, 2.5, 4], "output_size": [1, 2, 0], "param_size": [0, 5, 0]},
    "edges": [[0, 1], [1, 2]],
}
UNIT = {"cpuLatency": 1.0, "fpgaLatency": 2.0, "isBackwardNode": False, "size": 1.0, "supportedOnFpga": 1}
PLACEMENT = {
    "maxFPGAs": 2,
    "maxCPUs": 1,
    "maxSizePerFPGA": 8.0,
    "nodes": [{"id": 0, **UNIT}, {"id": 1, **UNIT}],
    "edges": [{"sourceId": 0, "destId": 1, "cost": 0.5}],
    "grid": [[1, 2], [3]],
}
TAKEN = [(PLAIN, None), (PIPELINE, None), (PLACEMENT, "pipeline")]
INTEGERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 99), st.sampled_from([2**63, -(2**63) - 1]))
SCALARS = st.one_of(INTEGERS, st.none(), st.booleans(), st.floats(allow_nan=False), st.text(max_size=4))
ROWS = st.lists(st.lists(INTEGERS, max_size=4), max_size=4)
VALUES = st.recursive(
    st.one_of(SCALARS, ROWS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), ("\n,\t", " :\r")])
FRAGMENTS = st.sampled_from(b'|[|]|[[|]]|,|-|0|01|1.5|1e9|"|\\| |NaN|Infinity|\xff|{}'.split(b"|"))
CUTS = st.sampled_from([1, 2, 5, 40, 10**6])


@st.composite
def spoilt(draw: Any, values: st.SearchStrategy[Any]) -> bytes:
    """A JSON text with up to two fragments put into it."""
    content = json.dumps(draw(values), separators=draw(SEPARATORS), ensure_ascii=draw(st.booleans())).encode(
        "utf-8", "surrogatepass"
    )
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(content)))
        content = content[:at] + draw(FRAGMENTS) + content[at + draw(st.integers(0, 2)) :]
    return content


def scanned(content: bytes, cut: int) -> scan.Scanned:
    view = memoryview(content)
    return scan.scan(view[at : at + cut] for at in range(0, len(view), cut))


def as_lists(value: Any) -> Any:
    """A document with lists instead of arrays."""
    if isinstance(value, Ragged):
        assert value.negative == bool((value.flat < 0).any())
        return list(value)
    if isinstance(value, list):
        return [as_lists(part) for part in value]
    return {key: as_lists(part) for key, part in value.items()} if isinstance(value, dict) else value


@given(spoilt(VALUES), CUTS)
def test_what_is_taken_is_what_the_general_reader_finds(content, cut):
    try:
        document = scanned(content, cut).document()
    except (scan.Unsupported, InputError):
        return
    assert repr(as_lists(document)) == repr(parse_json(decode(content, "x"), "x"))  # of the same types, too


@given(st.lists(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1)), min_size=1), max_size=64), SEPARATORS, CUTS)
def test_lists_of_integers_never_need_the_general_reader(lists, separators, cut):
    content = json.dumps({"a": lists and {str(i): rows for i, rows in enumerate(lists)}}, separators=separators)
    found = scanned(content.encode(), cut)
    assert [list(rows) for rows in found.lists()] == lists
    found.validate()


def outcome(read: Any) -> Any:
    """An instance as its document, or the sentence."""
    try:
        instance = read()
    except InputError as error:
        return str(error)
    return repr(instances.track_module(instance.track).to_document(instance))


@given(st.sampled_from(TAKEN).flatmap(lambda pair: st.tuples(spoilt(st.just(pair[0])), st.just(pair[1]))))
def test_an_instance_and_every_sentence_are_those_of_the_general_reader(case):
    content, track = case
    general = outcome(lambda: instances._build(parse_json(decode(content, "x"), "x"), "x", track, {}))
    assert outcome(lambda: parse(content, "x", track)) == general


@pytest.mark.parametrize("named", [{"usage_limit": None}, {}], ids=["null", "missing"])
def test_a_file_that_names_no_limit_has_none_for_either_reader(named):
    content = json.dumps({"problem": {key: PLAIN["problem"][key] for key in ("nodes", "edges")} | named}).encode()
    assert isinstance(scanned(content, 40).document()["problem"]["nodes"]["costs"], Ragged)
    general = instances._build(parse_json(decode(content, "x"), "x"), "x", None, {})
    assert parse(content, "x").usage_limit == general.usage_limit is None


@pytest.mark.parametrize(("document", "track"), TAKEN)
def test_the_documents_that_are_spoilt_are_right(document, track):
    assert parse(json.dumps(document).encode(), "x", track).nodes > 1


def test_edges_of_a_pipeline_never_need_the_general_reader(monkeypatch):
    monkeypatch.setattr(instances, "decode", None)
    assert parse(json.dumps(PIPELINE).encode(), "x").graph.tail.tolist() == [0, 1]


def test_numbers_of_every_length_at_every_place_of_a_piece():
    rng = random.Random(3)
    rows = [[rng.randrange(10 ** rng.randrange(1, 20)) % 2**63 for _ in range(50)] for _ in range(40)]
    content = json.dumps(rows, separators=(",", ":")).encode()
    for cut in range(1, 130):
        (found,) = scanned(content, cut).lists()
        assert list(found) == rows


LEFT = """[[1,02]]|[[1,]]|[[,1]]|[[1 2]]|[[+1]]|[[- 1]]|[[-]]|[[1]|[[1],]|[[9223372036854775808]]
[[-9223372036854775809]]|[[1.0]]|[[1e2]]|[[[1]]]|[[1],2]|[["a"]]|[[null]]|[[1]]N|[1,NaN]|[Infinity]|"|"\\\\"""


@pytest.mark.parametrize("rows", LEFT.replace("\n", "|").split("|"))
def test_what_is_left_to_the_general_reader(rows):
    for cut in (1, 100):
        with pytest.raises(scan.Unsupported):
            scanned(rows.encode() + b" " * 64 * (cut == 100 and '"' not in rows), cut)


def test_minus_zero_and_the_least_and_greatest_integers():
    (found,) = scanned(b"[[-0,0,9223372036854775807,-9223372036854775808],[ ], [ 1 ]]", 1000).lists()
    assert list(found) == [[0, 0, 2**63 - 1, -(2**63)], [], [1]]
    assert found.negative
    assert not next(scanned(b"[[-0]]", 1).lists()).negative


def test_more_lists_of_lists_than_a_scan_takes():
    assert len(scanned(b"[[1]]," * 64, 7).leaves) == 64
    with pytest.raises(scan.Unsupported):
        scanned(b"[[1]]," * 65, 7)


def test_no_python_object_is_made_for_an_integer():
    content = json.dumps([[i, i * 10**9] for i in range(100_000)]).encode()
    tracemalloc.start()
    found = scan.scan(scan.in_memory(content))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.value) == 200_000
    assert peak < 100_000  # bytes; a list of them takes 8 bytes each, the arrays are no memory of Python's


def test_arrays_outlive_their_scan_and_cannot_be_written():
    value, start = (array for found in scanned(b"[[1,2],[3]]", 3).lists() for array in (found.flat, found.start))
    assert (value.tolist(), start.tolist()) == ([1, 2, 3], [0, 2, 3])
    assert not value.flags.writeable
    assert not start.flags.writeable


def gzipped(content: bytes) -> dict[str, bytes]:
    packed = gzip.compress(content)
    return {
        "one stream": packed,
        "two streams": gzip.compress(content[:20]) + gzip.compress(content[20:]),
        "zeros behind": packed + bytes(100),
        "a name in it": gzip.compress(content, mtime=0)[:3] + b"\x08" + packed[4:10] + b"name\0" + packed[10:],
    }


@pytest.mark.parametrize("kind", ["one stream", "two streams", "zeros behind", "a name in it"])
def test_gzip(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(scan, "PIECE", 2048)
    document = {"problem": PLAIN["problem"] | {"name": "x" * 5000, "comment": [[i, i * i] for i in range(5000)]}}
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzipped(json.dumps(document).encode())[kind])
    assert outcome(lambda: load(path)) == outcome(lambda: parse(json.dumps(document).encode(), str(path)))


def test_gzip_is_decompressed_a_piece_at_a_time(tmp_path):
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b" " * 20_000_000))
    pieces = [len(piece) for piece in scan.unpacked(scan.on_disk(path, scan.Digest(b"x")))]
    assert sum(pieces) == 20_000_000
    assert max(pieces) <= scan.PIECE


def test_a_bomb_goes_to_the_general_reader_which_refuses_it(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonfile, "LARGEST", 1000)
    for name, content in (("a.json", b" " * 1001), ("a.json.gz", gzip.compress(b" " * 100_000))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match="expected at most 1000 bytes"):
            load(tmp_path / name)


def test_a_pipe_is_read_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(gzip.compress(json.dumps(PLAIN).encode()),))
    writer.start()
    try:
        assert load(tmp_path / "pipe").nodes == 2
    finally:
        writer.join()


def test_a_digest_takes_nothing_behind_a_piece_that_was_cut():
    digest = scan.Digest(b"seed")
    digest.update(bytes(2048))
    digest.update(b"abc")
    assert digest.text().startswith("2051:")
    with pytest.raises(ValueError, match="after the last"):
        digest.update(b"d")


def test_digests_tell_contents_and_seeds_apart():
    texts = [b"", b"\0", bytes(2048), bytes(2049), b"\1" + bytes(2047), bytes(4096), b"a" * 4096, b"a" * 4095 + b"b"]
    found = set()
    for seed in (b"one", b"two"):
        for text in texts:
            digest = scan.Digest(seed)
            digest.update(text)
            found.add(digest.text())
    assert len(found) == 2 * len(texts) - 1  # nothing has the same under every seed
