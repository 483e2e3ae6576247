"""One defective file a defect: each must end in a sentence with file, place and what was expected there."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from documents import changed, removed
from referee import refusal

from shardmark.harness.verify import verify
from shardmark.instances import InputError, load, pipeline
from shardmark.instances.files.columns import LARGEST
from shardmark.instances.graph import Graph

INTRAOP: dict[str, Any] = {
    "problem": {
        "name": "base",
        "nodes": {
            "intervals": [[0, 4], [1, 6], [2, 5]],
            "costs": [[3, 1], [2], [5, 7]],
            "usages": [[1, 2], [4], [2, 1]],
        },
        "edges": {"nodes": [[0, 1], [0, 2]], "costs": [[4, 9], [1, 2, 3, 4]]},
        "usage_limit": 7,
    }
}
PIPELINE: dict[str, Any] = {
    "format": "shardmark/pipeline/1",
    "name": "base",
    "stages": 2,
    "bandwidth": 2.5,
    "memory": 10,
    "nodes": {"name": ["a", "b", "c"], "work": [3, 2, 4], "output_size": [1, 2, 0], "param_size": [0, 5, 0]},
    "edges": [[0, 1], [1, 2]],
}
BASES = {"intraop": INTRAOP, "pipeline": PIPELINE}
FAR = 2**63

# (document path, new value, place in the sentence, expectation in the sentence)
Change = tuple[str, Any, str, str]
NO_STRATEGY = {"intervals": [[0, 1]] * 3, "costs": [[3, 1], [], [5, 7]], "usages": [[1, 2], [], [2, 1]]}

CHANGED: dict[str, list[Change]] = {
    "intraop": [
        ("problem", [], "problem", "expected an object with nodes, edges"),
        ("problem.name", 5, "name", "expected a text, found 5"),
        ("problem.name", "\ud800", "name", "expected a text"),
        ("problem.color", "red", "problem key 'color'", "expected only the keys nodes, edges, usage_limit"),
        ("extra", 1, "key 'extra'", "expected only the keys problem, comment"),
        ("problem.nodes", None, "nodes", "expected an object with intervals, costs, usages"),
        ("problem.nodes.costs", {}, "nodes.costs", "expected a list, found an object"),
        ("problem.nodes.costs", [[3, 1], [2]], "nodes.costs", "expected 3 elements, found 2"),
        ("problem.nodes.usages", [[1, 2], [4]], "nodes.usages", "expected 3 elements, found 2"),
        ("problem.nodes.usages.0", [1], "nodes.usages[0]", "expected 2 usages, one per cost, found 1"),
        ("problem.nodes.usages.2.1", -1, "nodes.usages[2][1]", "expected at least 0, found -1"),
        ("problem.nodes.costs.1.0", -2, "nodes.costs[1][0]", "expected at least 0, found -2"),
        ("problem.nodes", NO_STRATEGY, "nodes.costs[1]", "expected at least one strategy"),
        ("problem.nodes.costs.1", 2, "nodes.costs[1]", "expected a list, found 2"),
        ("problem.nodes.costs.0.1", True, "nodes.costs[0][1]", "expected an integer, found true"),
        ("problem.nodes.costs.0.1", 1.0, "nodes.costs[0][1]", "expected an integer, found 1.0"),
        ("problem.nodes.costs.0.1", "1", "nodes.costs[0][1]", "expected an integer, found '1'"),
        ("problem.nodes.costs.0.1", None, "nodes.costs[0][1]", "expected an integer, found null"),
        ("problem.nodes.costs.0.1", FAR, "nodes.costs[0][1]", "expected an integer below 2^63"),
        ("problem.nodes.usages.0.1", FAR, "nodes.usages[0][1]", "expected an integer below 2^63"),
        ("problem.nodes.intervals.1", [1], "nodes.intervals[1]", "expected a pair [begin, end]"),
        ("problem.nodes.intervals.1", [6, 1], "nodes.intervals[1]", "expected 0 <= begin <= end, found [6, 1]"),
        ("problem.nodes.intervals.2.0", -1, "nodes.intervals[2]", "expected 0 <= begin <= end, found [-1, 5]"),
        ("problem.nodes.intervals.2.0", 0.5, "nodes.intervals[2][0]", "expected an integer, found 0.5"),
        ("problem.edges.nodes.1.1", 3, "edges.nodes[1]", "expected node indices from 0 to 2, found 3"),
        ("problem.edges.nodes.1.0", -1, "edges.nodes[1]", "expected node indices from 0 to 2, found -1"),
        ("problem.edges.nodes.1.0", False, "edges.nodes[1][0]", "expected an integer, found false"),
        ("problem.edges.nodes.0", [], "edges.nodes[0]", "expected at least one node"),
        ("problem.edges.nodes", [[0, 1]], "edges.costs", "expected 1 elements, found 2"),
        ("problem.edges.costs.1", [1, 2, 3], "edges.costs[1]", "expected 4 costs, one per combination of strategies"),
        ("problem.edges.nodes.1", [0] * 9000, "edges.costs[1]", "expected an integer of 9001 bits costs"),
        ("problem.edges.costs.1.2", -5, "edges.costs[1][2]", "expected at least 0, found -5"),
        ("problem.edges.costs.1.2", FAR, "edges.costs[1][2]", "expected an integer below 2^63"),
        ("problem.usage_limit", -1, "usage_limit", "expected 0 to 2^63 - 1, found -1"),
        ("problem.usage_limit", FAR, "usage_limit", f"expected 0 to 2^63 - 1, found {FAR}"),
        ("problem.usage_limit", True, "usage_limit", "expected an integer, found true"),
        ("problem.usage_limit", 7.0, "usage_limit", "expected an integer, found 7.0"),
        ("problem.usage_limit", [], "usage_limit", "expected an integer, found a list of 0"),
    ],
    "pipeline": [
        ("format", "shardmark/pipeline/2", "format", "expected 'shardmark/pipeline/1', found 'shardmark/pipeline/2'"),
        ("name", ["a"], "name", "expected a text, found a list of 1"),
        ("color", "red", "key 'color'", "expected only the keys format, nodes, edges, name, stages"),
        ("nodes", [], "nodes", "expected an object with work, output_size"),
        ("nodes.weight", [1, 2, 3], "nodes key 'weight'", "expected only the keys work, output_size"),
        ("nodes.work", 3, "nodes.work", "expected a list, found 3"),
        ("nodes.output_size", [1, 2], "nodes", "expected columns of equal length, found "),
        ("nodes.param_size", [1, 2, 3, 4], "nodes", "expected columns of equal length, found "),
        ("nodes.name", ["a"], "nodes", "expected columns of equal length, found "),
        ("nodes.name.1", 7, "nodes.name[1]", "expected a text, found 7"),
        ("nodes.work.1", -2, "nodes.work[1]", "expected a finite number, at least 0, found -2"),
        ("nodes.work.1", True, "nodes.work[1]", "expected a finite number, at least 0, found true"),
        ("nodes.work.1", "2", "nodes.work[1]", "expected a finite number, at least 0, found '2'"),
        ("nodes.work.1", None, "nodes.work[1]", "expected a finite number, at least 0, found null"),
        (
            "nodes.work.1",
            10**400,
            "nodes.work[1]",
            "expected a finite number, at least 0, found an integer of 1329 bits",
        ),
        ("nodes.output_size.2", -1, "nodes.output_size[2]", "expected a finite number, at least 0, found -1"),
        ("nodes.param_size.0", -0.5, "nodes.param_size[0]", "expected a finite number, at least 0, found -0.5"),
        ("nodes.work", [1e308, 1e308, 0], "nodes", "expected numbers whose sums are finite"),
        ("nodes.work", [LARGEST, 9e291, 9e291], "nodes", "expected numbers whose sums are finite"),  # rounded they are
        ("edges", {}, "edges", "expected a list, found an object"),
        ("edges.1", [1, 2, 3], "edges[1]", "expected a pair [tail, head]"),
        ("edges.1", 4, "edges[1]", "expected a list, found 4"),
        ("edges.1", [1, 3], "edges[1]", "expected a node index from 0 to 2 as head, found 3"),
        ("edges.1", [-1, 2], "edges[1]", "expected a node index from 0 to 2 as tail, found -1"),
        ("edges.1", [2**40, 2], "edges[1]", f"expected a node index from 0 to 2 as tail, found {2**40}"),
        ("edges.1", [1, 2.0], "edges[1][1]", "expected an integer, found 2.0"),
        ("edges.1", [1, 1], "edges[1]", "expected a graph without cycles, found b -> b"),
        ("edges.1", [0, 1], "edges[1]", "expected every edge once, found [0, 1] again"),
        ("edges", [[0, 1], [1, 2], [2, 0]], "edges[0]", "expected a graph without cycles, found a -> b -> c -> a"),
        ("stages", 0, "stages", "expected 1 to 2147483647, found 0"),
        ("stages", -3, "stages", "expected 1 to 2147483647, found -3"),
        ("stages", 2**31, "stages", "expected 1 to 2147483647, found 2147483648"),
        ("stages", None, "stages", "expected a number in the file, or --stages N (stages=N in Python)"),
        ("stages", True, "stages", "expected an integer, found true"),
        ("stages", 2.0, "stages", "expected an integer, found 2.0"),
        ("bandwidth", 0, "bandwidth", "expected a positive number, found 0.0"),
        ("bandwidth", -2.5, "bandwidth", "expected a finite number, at least 0, found -2.5"),
        ("bandwidth", None, "bandwidth", "expected a finite number, at least 0, found null"),
        ("bandwidth", "fast", "bandwidth", "expected a finite number, at least 0, found 'fast'"),
        ("bandwidth", False, "bandwidth", "expected a finite number, at least 0, found false"),
        ("memory", -1, "memory", "expected a finite number, at least 0, found -1"),
        ("memory", "1 GiB", "memory", "expected a finite number, at least 0, found '1 GiB'"),
    ],
}
REMOVED = {
    "intraop": [
        ("problem.nodes", "problem", "expected a key 'nodes'"),
        ("problem.nodes.intervals", "nodes", "expected a key 'intervals'"),
        ("problem.edges.costs", "edges", "expected a key 'costs'"),
    ],
    "pipeline": [
        ("nodes", "base.json", "expected a key 'nodes'"),
        ("edges", "base.json", "expected a key 'edges'"),
        ("nodes.work", "nodes", "expected a key 'work'"),
        ("nodes.output_size", "nodes", "expected a key 'output_size'"),
        ("stages", "stages", "expected a number in the file, or --stages N (stages=N in Python)"),
    ],
}


def text(track: str) -> bytes:
    return json.dumps(BASES[track]).encode()


def with_number(track: str, number: bytes) -> bytes:
    """The base with its first cost or work replaced by a literal."""
    return text(track).replace(b"[3", b"[" + number, 1)


RAW: dict[str, tuple[Callable[[str], bytes], str, str]] = {
    "empty file": (lambda track: b"", "line 1 column 1", "expected JSON"),
    "truncated": (lambda track: text(track)[:-9], "line 1 column", "expected JSON"),
    "not JSON": (lambda track: b"instance: 5\n", "line 1 column 1", "expected JSON"),
    "two documents": (lambda track: text(track) + b"\n{}", "line 2 column 1", "expected JSON (Extra data)"),
    "truncated gzip": (lambda track: gzip.compress(text(track))[:-12], "gzip stream", "expected complete gzip data"),
    "damaged gzip": (lambda track: gzip.compress(text(track))[:-8] + bytes(8), "gzip stream", "expected complete gzip"),
    "gzip header only": (lambda track: b"\x1f\x8b", "gzip stream", "expected complete gzip data"),
    "invalid UTF-8": (lambda track: text(track).replace(b"base", b"ba\xffe"), "byte ", "expected UTF-8 text"),
    "UTF-16": (lambda track: text(track).decode().encode("utf-16"), "byte 0", "expected UTF-8 text"),
    "list": (lambda track: b"[1, 2]", "base.json", "expected an instance of one of the tracks"),
    "number": (lambda track: b"12", "base.json", "expected an instance of one of the tracks"),
    "null": (lambda track: b"null", "base.json", "expected an instance of one of the tracks"),
    "other object": (lambda track: b'{"a": 1}', "base.json", "expected an instance of one of the tracks"),
    "NaN": (lambda track: with_number(track, b"NaN"), "line 1 column", "expected a finite number, found NaN"),
    "Infinity": (
        lambda track: with_number(track, b'"NaN", -Infinity'),
        "line 1 column",
        "expected a finite number, found -Infinity",
    ),
    "number too large for a float": (lambda track: with_number(track, b"1e999"), "[0]", "found inf"),
    "duplicated key": (
        lambda track: text(track).replace(b'"edges":', b'"nodes":', 1),
        "key 'nodes'",
        "expected every key once in its object, found it twice",
    ),
    "nested too deeply": (
        lambda track: with_number(track, b"[" * 200_000 + b"]" * 200_000),
        "line 1 column 1",
        "expected less deeply nested JSON",
    ),
    "number of 5000 digits": (
        lambda track: b"\n\n" + with_number(track, b"7" * 5000),
        "line 3 column",
        "expected a number of at most 4300 digits",
    ),
}


def sentence(path: Any, content: bytes, **options: Any) -> str:
    path.write_bytes(content)
    message = refusal(load, path, **options)
    assert message.startswith(f"{path}: ")
    return message


@pytest.mark.parametrize("track", BASES)
def test_the_bases_are_valid(track, tmp_path):
    path = tmp_path / "base.json"
    path.write_bytes(text(track))
    assert load(path).track == track


@pytest.mark.parametrize(("track", "change"), [(track, change) for track in BASES for change in CHANGED[track]])
def test_changed_value(track, change, tmp_path):
    path, value, place, expected = change
    message = sentence(tmp_path / "base.json", json.dumps(changed(BASES[track], {path: value})).encode())
    assert f": {place}: {expected}" in message


@pytest.mark.parametrize(("track", "removal"), [(track, removal) for track in BASES for removal in REMOVED[track]])
def test_removed_key(track, removal, tmp_path):
    path, place, expected = removal
    assert f"{place}: {expected}" in sentence(tmp_path / "base.json", json.dumps(removed(BASES[track], path)).encode())


@pytest.mark.parametrize("track", BASES)
@pytest.mark.parametrize("defect", RAW)
def test_defective_file(track, defect, tmp_path):
    content, place, expected = RAW[defect]
    message = sentence(tmp_path / "base.json", content(track))
    assert place in message
    assert expected in message


LEGAL: dict[str, dict[str, Any]] = {
    "an empty graph": {"nodes": {"work": [], "output_size": []}, "edges": []},
    "more stages than nodes": {"stages": 9},
    "no edges": {"edges": []},
    "two parts": {"edges": [[2, 0]]},
    "no memory at all": {"memory": 0},
    "weights of zero": {"nodes": {"work": [0, 0, 0], "output_size": [0, 0, 0]}},
    "weights near the end of the range": {"nodes": {"work": [1e307] * 3, "output_size": [1e307, 0, 5e-324]}},
}


@pytest.mark.parametrize("change", LEGAL)
def test_what_looks_odd_and_is_legal(change, tmp_path):
    path = tmp_path / "base.json"
    path.write_text(json.dumps({**PIPELINE, **LEGAL[change]}))
    instance = load(path)
    n = len(LEGAL[change].get("nodes", PIPELINE["nodes"])["work"])
    assert instance.nodes == n
    verdict = verify(instance, [instance.stages - 1] * n)
    assert verdict.feasible
    assert instance.work_bound() <= verdict.cost


@pytest.mark.gate
def test_a_million_nodes_are_an_instance_like_any_other():
    n = 10**6
    work, size = np.full(n, 3.0), np.ones(n)
    nodes = np.arange(n - 1)
    graph = Graph(n, nodes, nodes + 1)
    names = tuple(map(str, range(n)))
    instance = pipeline.Instance("long", graph, names, work, size, np.zeros(n), stages=4, bandwidth=1.0)
    assert instance.work_bound() == pytest.approx(750_000)
    assert verify(instance, (np.arange(n) * 4 // n).tolist()).cost == 750_002


def test_a_cycle_of_many_nodes_is_found():
    n = 10**5
    nodes = np.arange(n)
    with pytest.raises(InputError, match=r"expected a graph without cycles, found 0 -> 1 -> 2 .* -> 7 -> \.\.\.$"):
        Graph(n, nodes, (nodes + 1) % n)


def test_wrong_track_for_the_content(tmp_path):
    message = sentence(tmp_path / "a.json", text("pipeline"), track="intraop")
    assert "expected a key 'problem'" in message
    message = sentence(tmp_path / "a.json", text("intraop"), track="pipeline")
    assert "expected a key 'format'" in message


def test_unknown_track(tmp_path):
    (tmp_path / "a.json").write_bytes(text("pipeline"))
    with pytest.raises(InputError, match=r"track: 'routing': expected one of intraop, pipeline"):
        load(tmp_path / "a.json", track="routing")


def test_a_format_that_is_not_known_is_told_before_what_it_lacks(tmp_path):
    message = sentence(tmp_path / "a.json", b'{"format": "shardmark/pipeline/2", "graph": []}')
    assert message.endswith("format: expected 'shardmark/pipeline/1', found 'shardmark/pipeline/2'")


def test_option_of_another_track(tmp_path):
    message = sentence(tmp_path / "a.json", text("intraop"), stages=4)
    assert "option stages: expected no option: intraop has none" in message


@pytest.mark.parametrize(("stages", "expected"), [(0, "expected 1 to"), (-1, "expected 1 to"), (True, "an integer")])
def test_bad_stages_option(stages, expected, tmp_path):
    message = sentence(tmp_path / "a.json", text("pipeline"), stages=stages)
    assert "stages: expected" in message
    assert expected in message


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"none\.json: expected a file, found nothing of that name"):
        load(tmp_path / "none.json")


def test_folder(tmp_path):
    with pytest.raises(InputError, match="expected a file, found a folder"):
        load(tmp_path)


def test_folder_on_the_way_is_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match=r"expected a readable file \(Not a directory\)"):
        load(tmp_path / "file" / "a.json")
