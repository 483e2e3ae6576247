"""Instances survive the way into their file format and back, plain or gzip."""

from __future__ import annotations

import dataclasses
import gzip
import json
import os
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmark.instances import InputError, intraop, load, parse, pipeline, save
from shardmark.instances.files import jsonfile
from shardmark.instances.files.jsonfile import read_bytes, require_writable, write_bytes
from shardmark.instances.generate import families
from shardmark.instances.graph import Graph


def same(a: Any, b: Any) -> bool:
    """Tell if two instances (or graphs) agree in every field but the file they come from."""
    for field in dataclasses.fields(a):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if isinstance(x, np.ndarray):
            equal = x.dtype == y.dtype and np.array_equal(x, y) and not y.flags.writeable
        elif isinstance(x, Graph):
            equal = same(x, y)
        else:
            equal = field.name == "source" or (x == y and type(x) is type(y))
        if not equal:
            return False
    return True


@pytest.mark.parametrize("name", ["work", "output_size", "param_size"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_pipeline_made_in_a_program_is_checked_like_a_file(name, value):
    instance = families()["chain"].build(0)
    column = getattr(instance, name).copy()
    column[2] = value
    expected = rf"nodes\.{name}\[2\]: expected a finite number, at least 0, found {value:g}$"
    with pytest.raises(InputError, match=expected):
        dataclasses.replace(instance, **{name: column})
    with pytest.raises(InputError, match=f"nodes: expected 5 elements per column, one per node, found {name} 4$"):
        dataclasses.replace(instance, **{name: column[:4]})


@pytest.mark.parametrize(
    ("name", "place"),
    [("node_cost", "nodes.costs[1][0]"), ("usage", "nodes.usages[1][0]"), ("table", "edges.costs[0][1]")],
)
def test_an_intraop_instance_made_in_a_program_is_checked_like_a_file(name, place):
    instance = families()["diamond"].build(0)
    column = getattr(instance, name).copy()
    column[1] = -7
    with pytest.raises(InputError, match=rf"{re.escape(place)}: expected at least 0, found -7$"):
        dataclasses.replace(instance, **{name: column})


@st.composite
def intraop_documents(draw):
    entry = st.integers(0, 2**63 - 1)
    menus = draw(st.lists(st.integers(1, 3), min_size=0, max_size=5))
    scopes = draw(st.lists(st.lists(st.sampled_from(range(len(menus))), min_size=1, max_size=3))) if menus else []

    def rows(sizes):
        return [draw(st.lists(entry, min_size=k, max_size=k)) for k in sizes]

    begins = rows([1] * len(menus))
    return {
        "problem": {
            "name": draw(st.text(st.characters(exclude_categories=["Cs"]))),
            "nodes": {
                "intervals": [[b, draw(st.integers(b, 2**63 - 1))] for (b,) in begins],
                "costs": rows(menus),
                "usages": rows(menus),
            },
            "edges": {"nodes": scopes, "costs": rows(int(np.prod([menus[v] for v in s])) for s in scopes)},
            "usage_limit": draw(entry),
        }
    }


@st.composite
def pipeline_documents(draw):
    n = draw(st.integers(0, 6))
    size = st.one_of(st.integers(0, 2**60), st.floats(0, 1e200))
    pairs = [[u, v] for u in range(n) for v in range(u + 1, n)]
    column = st.lists(size, min_size=n, max_size=n)
    return {
        "format": "shardmark/pipeline/1",
        "name": draw(st.text(st.characters(exclude_categories=["Cs"]))),
        "stages": draw(st.integers(1, 2**31 - 1)),
        "bandwidth": draw(st.floats(1e-9, 1e9)),
        "memory": draw(st.one_of(st.none(), size)),
        "nodes": {
            "name": [str(v) for v in range(n)],
            "work": draw(column),
            "output_size": draw(column),
            "param_size": draw(column),
        },
        "edges": draw(st.lists(st.sampled_from(pairs), unique_by=tuple)) if pairs else [],
    }


@given(intraop_documents())
def test_intraop_round_trip(document):
    instance = intraop.parse(document, "first")
    assert intraop.to_document(instance) == document
    assert same(instance, intraop.parse(intraop.to_document(instance), "second"))


@given(pipeline_documents())
def test_pipeline_round_trip(document):
    instance = pipeline.parse(document, "first")
    text = json.dumps(pipeline.to_document(instance))
    assert same(instance, pipeline.parse(json.loads(text), "second"))


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_saved_files_load_unchanged_and_are_the_same_every_time(name, tmp_path):
    nodes = {"work": [1, 2.5], "output_size": [3, 0], "param_size": [0, 1e-3]}
    document = {"format": pipeline.FORMAT, "stages": 3, "nodes": nodes, "edges": [[0, 1]]}
    instance = pipeline.parse(document, "x")
    save(instance, tmp_path / name)
    first = (tmp_path / name).read_bytes()
    assert same(instance, load(tmp_path / name))
    assert (first[:2] == b"\x1f\x8b") == name.endswith(".gz")
    save(instance, tmp_path / name)
    assert (tmp_path / name).read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_defaults_of_a_short_pipeline_file():
    content = b'{"format": "shardmark/pipeline/1", "nodes": {"work": [1], "output_size": [2]}, "edges": []}'
    instance = parse(content, "short", stages=4)
    assert (instance.stages, instance.bandwidth, instance.memory) == (4, 1.0, None)
    assert (instance.node_names, instance.param_size.tolist()) == (("0",), [0.0])


def test_stages_option_overrides_the_file():
    content = (
        b'{"format": "shardmark/pipeline/1", "stages": 2, "nodes": {"work": [1], "output_size": [2]}, "edges": []}'
    )
    assert parse(content, "short", stages=None).stages == 2
    assert parse(content, "short", stages=5).stages == 5


def test_a_byte_order_mark_is_no_defect():
    content = '\ufeff{"problem": {"nodes": {"intervals": [], "costs": [], "usages": []}'
    content += ', "edges": {"nodes": [], "costs": []}, "usage_limit": 0}}'
    assert parse(content.encode(), "marked").nodes == 0


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_another_encoding_is_named(encoding, mark, tmp_path):
    path = tmp_path / "wide.json"
    path.write_bytes(f"{mark}{{}}".encode(encoding))
    with pytest.raises(InputError, match="byte 0: expected UTF-8 text, found UTF-16, or UTF-32"):
        load(path)


def test_a_colour_of_a_terminal_is_named(tmp_path):
    path = tmp_path / "coloured.json"
    path.write_bytes(b"{}\x1b[0m\n")
    with pytest.raises(InputError, match=r"line 1 column 3: expected JSON \(found a colour code of a terminal"):
        load(path)


def test_writing_where_nothing_can_be_written(tmp_path):
    with pytest.raises(InputError, match="expected a path that can be written"):
        write_bytes(tmp_path / "none" / "a.json", b"")
    with pytest.raises(InputError, match="expected a file to write, found a folder"):
        write_bytes(tmp_path, b"")


def test_links_that_lead_to_each_other_are_no_place_to_write(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(InputError, match=r"expected a path that can be written \(Too many levels of symbolic links\)"):
        require_writable(tmp_path / "a")


def test_a_failed_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    (tmp_path / "a.json").write_text("old")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(InputError, match=r"expected a path that can be written \(No space left on device\)"):
        write_bytes(tmp_path / "a.json", b"{}")
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_text() == "old"


@pytest.mark.parametrize("name", ["example.json", "benchmarks/asplos-2025-iopddl-G.json.gz"])
def test_contest_files_round_trip(name, tmp_path, mirror):
    path = mirror / "google/iopddl" / name
    instance = load(path)
    assert intraop.to_document(instance) == json.loads(read_bytes(path))
    save(instance, tmp_path / "again.json.gz")
    assert same(instance, load(tmp_path / "again.json.gz"))


def test_a_link_stays_a_link_and_a_pipe_a_pipe(tmp_path):
    (tmp_path / "a.json").write_text("old")
    (tmp_path / "link.json").symlink_to("a.json")
    write_bytes(tmp_path / "link.json", b"new")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "a.json").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_bytes(tmp_path / "pipe", b"through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)


def test_a_bomb_is_refused_in_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonfile, "LARGEST", 1000)
    (tmp_path / "plain.json").write_bytes(b" " * 1001)
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b" " * 100_000))
    for name in ("plain.json", "bomb.json.gz"):
        with pytest.raises(InputError, match="expected at most 1000 bytes"):
            read_bytes(tmp_path / name)
