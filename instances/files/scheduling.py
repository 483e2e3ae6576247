"""Files of ``scheduling`` as they are read: columnar JSON, of which every value is checked.

See ``docs/tracks/scheduling.md`` for the format.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import (
    LARGEST,
    Floats,
    Ints,
    describe,
    float_column,
    int_column,
    names_column,
    require_equal_lengths,
    require_format,
    require_list,
    require_number,
    require_text,
)
from shardmark.instances.files.jsonfile import require_keys
from shardmark.instances.graph import Graph

FORMAT = "shardmark/scheduling/1"
MAX_DEVICES = 4096  # every pair has a bandwidth, even if the file gives one number for all


def recognises(document: Any) -> bool:
    """True if the document declares the scheduling format."""
    return isinstance(document, dict) and str(document.get("format", "")).startswith("shardmark/scheduling/")


def read(document: Any, source: str) -> dict[str, Any]:
    """Return the fields of a `scheduling.Instance` that a document has, all but its options.

    By default vertices and devices are named by their numbers, vertices are neither colocated nor restricted, and
    memory is unlimited. ``bandwidth`` may be one number for all links. InputError names the first wrong value.
    """
    optional = ("name", "options", "comment")
    require_format(document, FORMAT, source)
    require_keys(document, source, "", ("format", "nodes", "edges", "devices", "bandwidth"), optional)
    nodes = require_keys(document["nodes"], source, "nodes", ("complexity",), ("name", "colocation", "devices"))
    devices = require_keys(document["devices"], source, "devices", ("speed",), ("name", "memory"))
    require_equal_lengths(nodes, source, "nodes")
    require_equal_lengths(devices, source, "devices")
    complexity = float_column(nodes["complexity"], source, "nodes.complexity")
    speed = float_column(devices["speed"], source, "devices.speed")
    n, k = len(complexity), len(speed)
    if k > MAX_DEVICES:
        raise InputError(source, "devices.speed", f"expected at most {MAX_DEVICES} devices, found {k}")
    names = names_column(nodes.get("name"), n, source, "nodes.name")
    graph, size = _edges(document["edges"], names, source)
    choices, choice = _choices(nodes.get("devices"), n, k, source)
    return {
        "name": require_text(document.get("name", "scheduling"), source, "name"),
        "graph": graph,
        "node_names": names,
        "complexity": complexity,
        "size": size,
        "colocation": _colocation(nodes.get("colocation"), n, source),
        "choices": choices,
        "choice": choice,
        "device_names": names_column(devices.get("name"), k, source, "devices.name"),
        "speed": speed,
        "memory": _memory(devices.get("memory"), k, source),
        "bandwidth": _bandwidth(document["bandwidth"], k, source),
        "source": source,
    }


def _edges(edges: Any, names: tuple[str, ...], source: str) -> tuple[Graph, Floats]:
    require_list(edges, source, "edges")
    for i, edge in enumerate(edges):
        if not isinstance(edge, list) or len(edge) != 3:
            raise InputError(source, f"edges[{i}]", f"expected [tail, head, size], found {describe(edge)}")
    tail, head = (int_column([edge[end] for edge in edges], source, "edges") for end in (0, 1))
    size = [edge[2] for edge in edges]
    if set(map(type, size)) - {int, float} or not all(0 <= value <= LARGEST for value in size):
        for i, value in enumerate(size):  # some size is bad: this raises with its place
            require_number(value, source, f"edges[{i}][2]")
    return Graph(len(names), tail, head, source, names), np.array(size, dtype=np.float64)


def _colocation(groups: Any, n: int, source: str) -> Ints:
    if groups is None:
        return np.full(n, -1, dtype=np.int64)
    for i, group in enumerate(require_list(groups, source, "nodes.colocation", n)):
        if type(group) is int and group < 0:  # -1 would be read as no group
            raise InputError(source, f"nodes.colocation[{i}]", f"expected null or at least 0, found {describe(group)}")
    return int_column([-1 if group is None else group for group in groups], source, "nodes.colocation")


def _choices(column: Any, n: int, k: int, source: str) -> tuple[tuple[Ints, ...], Ints]:
    """Return the distinct sets of a column of device lists, and the index of each vertex's set; -1 for null."""
    numbers, sets = np.full(n, -1, dtype=np.int64), dict[tuple[int, ...], int]()
    for v, devices in enumerate([] if column is None else require_list(column, source, "nodes.devices", n)):
        if devices is not None:
            place = f"nodes.devices[{v}]"
            found = tuple(require_list(devices, source, place))
            for device in found:
                if type(device) is not int or not 0 <= device < k:
                    expected = f"expected device numbers from 0 to {k - 1}, found {describe(device)}"
                    raise InputError(source, place, expected)
            if not found or len(set(found)) < len(found):
                expected = "expected null or at least one device, each once"
                raise InputError(source, place, f"{expected}, found {describe(devices)}")
            numbers[v] = sets.setdefault(tuple(sorted(found)), len(sets))
    return tuple(np.array(devices, dtype=np.int64) for devices in sets), numbers


def _memory(column: Any, k: int, source: str) -> Floats:
    if column is None:
        return np.full(k, np.inf)
    require_list(column, source, "devices.memory", k)
    limits = [
        np.inf if limit is None else require_number(limit, source, f"devices.memory[{i}]")
        for i, limit in enumerate(column)
    ]
    return np.array(limits, dtype=np.float64)


def _bandwidth(rows: Any, k: int, source: str) -> Floats:
    if not isinstance(rows, list):
        matrix = np.full((k, k), require_number(rows, source, "bandwidth"))
    else:
        require_list(rows, source, "bandwidth", k)
        matrix = np.empty((k, k))
        for i, row in enumerate(rows):
            place = f"bandwidth[{i}]"
            require_list(row, source, place, k)
            if row[i] is not None:
                raise InputError(source, f"{place}[{i}]", f"expected null within a device, found {describe(row[i])}")
            matrix[i] = float_column([*row[:i], 0, *row[i + 1 :]], source, place)
    np.fill_diagonal(matrix, np.inf)
    return matrix
