"""The measurement of reading compares like with like, and measures."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
import reading

from shardmark.instances import load

PROBLEM = {
    "name": "small",
    "nodes": {"intervals": [[0, 4], [1, 6]], "costs": [[10, 20], [30]], "usages": [[1, 2], [4]]},
    "edges": {"nodes": [[0, 1], [1]], "costs": [[40, 50], [10**18]]},
    "usage_limit": 7,
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps({"problem": PROBLEM}))
    return path


def test_the_yardstick_comes_to_the_same_arrays(path):
    columns, instance = reading.yardstick(str(path)), load(path)
    expected = {
        "nodes.costs": instance.node_cost,
        "nodes.costs.start": instance.strategy_start,
        "nodes.usages": instance.usage,
        "nodes.usages.start": instance.strategy_start,
        "nodes.intervals": np.column_stack([instance.begin, instance.end]).ravel(),
        "nodes.intervals.start": np.array([0, 2, 4]),
        "edges.nodes": instance.scope,
        "edges.nodes.start": instance.scope_start,
        "edges.costs": instance.table,
        "edges.costs.start": instance.table_start,
    }
    assert {name: (column.dtype, column.tolist()) for name, column in columns.items()} == {
        name: (np.dtype(np.int64), column.tolist()) for name, column in expected.items()
    }


def test_every_way_is_measured(path, capsys):
    path.with_suffix(".json.gz").write_bytes(gzip.compress(path.read_bytes()))
    reading.main(str(path.with_suffix(".json.gz")), "1")
    lines = capsys.readouterr().out.splitlines()
    assert [line[:31].strip() for line in lines[1:]] == list(reading.WAYS)
    assert all(" ms (" in line and " MiB (1/" in line for line in lines[1:])
