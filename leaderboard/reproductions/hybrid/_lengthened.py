"""Longer variants of a chain of layers, as the paper makes them: by copies of a layer in the middle."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]


def lengthened(document: Mapping[str, Any], layers: int) -> Document:
    """Return a file with so many layers: the nodes of the most frequent name, copied after the middle one.

    A copy reads what the layer before it reads from other nodes, and that layer's output; the next layer reads the
    copy's output instead.
    """
    found = copy.deepcopy(dict(document))
    name, count = Counter(node.get("name") for node in found["nodes"]).most_common(1)[0]
    ids = [node["id"] for node in found["nodes"] if node.get("name") == name]
    layer = ids[len(ids) // 2]
    for _ in range(layers - count):
        layer = _copied(found, ids, layer)
    return found


def _copied(document: Document, layers: list[int], layer: int) -> int:
    """Insert a copy after a layer and return its id."""
    new = max(node["id"] for node in document["nodes"]) + 1
    nodes = {node["id"]: node for node in document["nodes"]}
    (inner,) = [edge for edge in document["edges"] if edge["destId"] == layer and edge["sourceId"] in layers]
    (outer,) = [edge for edge in document["edges"] if edge["sourceId"] == layer and edge["destId"] in layers]
    before, after = inner["sourceId"], outer["destId"]
    twin = copy.deepcopy(nodes[layer])
    twin["id"] = new
    layers.append(new)
    document["nodes"].insert(document["nodes"].index(nodes[layer]) + 1, twin)
    others = [edge for edge in document["edges"] if edge["destId"] == layer and edge is not inner]
    document["edges"] += [{**edge, "destId": new} for edge in others]
    document["edges"].append({**inner, "sourceId": layer, "destId": new})
    outer["sourceId"] = new
    _rename(twin, "syncTimeFw", before, layer)
    _rename(nodes[layer], "syncTimeBw", after, new)
    _rename(nodes[after], "syncTimeFw", layer, new)
    for edge in others:
        for entry in _entries(nodes[edge["sourceId"]]):
            entry["syncTimeBw"][str(new)] = entry["syncTimeBw"][str(layer)]
    return new


def _rename(node: Document, key: str, old: int, new: int) -> None:
    for entry in _entries(node):
        entry[key] = {str(new) if end == str(old) else end: size for end, size in entry[key].items()}


def _entries(node: Document) -> list[Document]:
    return [entry for entries in node["TMPCs"].values() for entry in entries]
