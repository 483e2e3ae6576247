"""Unusual instances of the contest's format that are right: each is read, by either reader, as it stands."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from shardmark.instances import intraop, parse
from shardmark.instances.files import jsonfile, scan
from shardmark.instances.files.columns import Ragged

HUGE = 10**18
MOST = 2**63 - 1


def problem(**changes: Any) -> dict[str, Any]:
    """Two nodes of two strategies and an edge, but for what is changed."""
    parts = {
        "intervals": [[0, 2], [1, 3]],
        "costs": [[1, 2], [3, 4]],
        "usages": [[5, 6], [7, 8]],
        "nodes": [[0, 1]],
        "tables": [[1, 2, 3, 4]],
        "limit": 12,
    } | changes
    return {
        "problem": {
            "name": "unusual",
            "nodes": {name: parts[name] for name in ("intervals", "costs", "usages")},
            "edges": {"nodes": parts["nodes"], "costs": parts["tables"]},
            "usage_limit": parts["limit"],
        }
    }


# A change, and the summary after it: least peak of memory, the simplest bound, the largest arity.
UNUSUAL: dict[str, tuple[dict[str, Any], int, int, int]] = {
    "nothing": ({}, 12, 5, 2),
    "intervals of length 0": ({"intervals": [[1, 1], [5, 5]]}, 0, 5, 2),
    "one of length 0 in the midst of another": ({"intervals": [[1, 1], [0, 3]]}, 7, 5, 2),
    "intervals that only touch": ({"intervals": [[0, 2], [2, 3]]}, 7, 5, 2),
    "the last time step there is": ({"intervals": [[MOST, MOST], [0, MOST]]}, 7, 5, 2),
    "duplicate edges": ({"nodes": [[0, 1], [0, 1], [1, 0]], "tables": [[1, 2, 3, 4]] * 3}, 12, 7, 2),
    "a self loop": ({"nodes": [[1, 1]], "tables": [[9, 8, 8, 9]]}, 12, 12, 2),
    "an edge of one node": ({"nodes": [[1]], "tables": [[6, 7]]}, 12, 10, 1),
    "an edge of three, one twice": ({"nodes": [[0, 1, 0]], "tables": [[2, 3, 4, 5, 6, 7, 8, 9]]}, 12, 6, 3),
    "no edges": ({"nodes": [], "tables": []}, 12, 4, 0),
    "one strategy each": ({"costs": [[1], [3]], "usages": [[5], [7]], "tables": [[8]]}, 12, 12, 2),
    "no nodes": ({n: [] for n in ("intervals", "costs", "usages", "nodes", "tables")}, 0, 0, 0),
    "costs of 0": ({"costs": [[0, 0], [0, 0]], "tables": [[0, 0, 0, 0]]}, 12, 0, 2),
    "costs of 10^18": ({"costs": [[HUGE] * 2] * 2, "tables": [[HUGE] * 4]}, 12, 3 * HUGE, 2),
    "sums beyond 64 bits": ({"costs": [[MOST] * 2] * 2, "tables": [[MOST] * 4]}, 12, 3 * MOST, 2),
    "memory beyond 64 bits": ({"usages": [[MOST] * 2] * 2, "limit": MOST}, 2 * MOST, 5, 2),
    "a limit of 0": ({"limit": 0, "usages": [[0, 0], [0, 0]]}, 0, 5, 2),
    "the largest limit": ({"limit": MOST}, 12, 5, 2),
}


@pytest.mark.parametrize("case", UNUSUAL)
def test_unusual_instances(case):
    changes, peak, bound, arity = UNUSUAL[case]
    document = problem(**changes)
    content = json.dumps(document).encode()
    nodes = scan.scan(scan.in_memory(content)).document()["problem"]["nodes"]
    assert isinstance(nodes["costs"], Ragged) == (case != "no nodes")
    plain, general = parse(content, "x"), intraop.parse(jsonfile.parse_json(content.decode(), "x"), "x")
    for instance in (plain, general):
        assert intraop.to_document(instance) == document
        summary = instance.summary()
        assert (summary["least_peak_usage"], summary["simple_bound"], summary["largest_arity"]) == (peak, bound, arity)
        assert summary["usage_limit"] == document["problem"]["usage_limit"]
    arrays = [value for value in vars(plain).values() if isinstance(value, np.ndarray)]
    assert len(arrays) == 9
    for array in arrays:
        assert array.dtype == np.int64
        assert array.flags.c_contiguous
        assert not array.flags.writeable
