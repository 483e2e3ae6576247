"""Files of Piper, "Multidimensional Planner for DNN Parallelization" (NeurIPS 2021), read and written.

One JSON object: ``maxDevices maxMemoryPerDevice bandwidth mbsInBatch nodes edges``. A node has ``id TMPCs``, maybe
``name``; ``TMPCs`` maps a tensor-parallel degree to its configurations, each with ``id timePerSample parameterSize
memoryUsageA memoryUsageB syncTimeFw syncTimeBw``. An edge has ``sourceId destId communicationCost``. Optional keys of
ours: ``memoryShared`` and ``gatherSize`` of a configuration, ``devicesPerMachine`` and ``bandwidthInside`` of the file,
and ``options``. Other keys are ignored, as the program of the paper ignores them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from shardmark.instances.errors import InputError, TooLarge
from shardmark.instances.files.columns import (
    Floats,
    Ints,
    describe,
    freeze_columns,
    frozen,
    plain,
    refuse_below_0,
    require_columns,
    require_list,
    require_number,
    require_text,
)
from shardmark.instances.files.jsonfile import shortened
from shardmark.instances.files.records import Records, get, refuse_repeated
from shardmark.instances.graph import Graph, OnGraph

#: Columns of a configuration, by their keys in the file; the last two are optional.
KEYS = {
    "timePerSample": "time",
    "parameterSize": "parameters",
    "memoryUsageA": "stashed",
    "memoryUsageB": "fixed",
    "memoryShared": "shared",
    "gatherSize": "gathered",
}
OPTIONAL = ("memoryShared", "gatherSize")
LARGEST = 2**31  # upper bound on degrees and on the numbers of devices and microbatches
MOST_CONFIGURATIONS = 1 << 20  # of a file: each takes about 2 KB while it is read


@dataclass(frozen=True, eq=False, kw_only=True)
class Workload(OnGraph):
    """A graph of layers, and the configurations of each. A microbatch is one sample of the paper's time per sample.

    ``graph``        n nodes in the order of the file, m distinct edges
    ``ids``          shape (n,), int64: the file's ids of the nodes, all different
    ``communicated`` shape (m,), float64: bytes of an edge's tensor

    Configurations of node v are ``start[v]:start[v + 1]`` of these columns of shape (c,), by ascending degree:

    ``degree``       int64: tensor-parallel degree, the devices of one replica
    ``kind``         int64: index of the configuration's id in ``kinds``; a node has each degree and kind once
    ``time``         float64: seconds of forward and backward pass of one microbatch on one replica
    ``parameters``   float64: bytes per device that replicas synchronise after every batch
    ``stashed``      float64: bytes per device and microbatch in flight
    ``fixed``        float64: bytes per device, however many microbatches are in flight
    ``shared``       float64: bytes per device that d replicas divide by d
    ``gathered``     float64: bytes that d > 1 replicas gather and scatter per microbatch: each moves (d - 1) / d of it

    ``sync_start``   shape (c + 1,), int64: ``sync[sync_start[i]:sync_start[i + 1]]`` belongs to the configuration i
    ``sync``         float64: bytes that its replica moves more for each edge that leaves the stage, parallel to the
                     edges of its node in `incident`
    """

    name: str
    graph: Graph
    ids: Ints
    node_names: tuple[str, ...]
    communicated: Floats
    start: Ints
    degree: Ints
    kind: Ints
    kinds: tuple[str, ...]
    time: Floats
    parameters: Floats
    stashed: Floats
    fixed: Floats
    shared: Floats
    gathered: Floats
    sync_start: Ints
    sync: Floats
    source: str = field(default="instance", repr=False)

    def __post_init__(self) -> None:
        require_columns(self, ("ids", "node_names"), self.nodes, "nodes")
        require_columns(self, ["communicated"], self.edges, "edges")
        require_columns(self, ("degree", "kind", *KEYS.values()), self.configurations, "configurations")
        for name in (*KEYS.values(), "sync", "communicated"):
            refuse_below_0(getattr(self, name), self.source, f"{name}[{{}}]")
        refuse_repeated(self.ids, self.source)
        for v in np.flatnonzero(np.diff(self.start) < 1)[:1]:
            raise InputError(self.source, f"nodes[{v}].TMPCs", "expected at least one degree")
        for c in np.flatnonzero((self.degree < 1) | (self.degree >= LARGEST))[:1]:
            expected = f"expected 1 to {LARGEST - 1}, found {self.degree[c]}"
            raise InputError(self.source, f"degree[{c}]", expected)
        self._refuse_repeated_configurations()
        wanted = np.diff(self.incident[0])[self.node]
        for c in np.flatnonzero(np.diff(self.sync_start) != wanted)[:1]:
            raise InputError(self.source, f"sync_start[{c}]", f"expected {wanted[c]} numbers, one per edge of its node")
        freeze_columns(self)

    def _refuse_repeated_configurations(self) -> None:
        order = np.lexsort((self.kind, self.degree, self.node))
        if (self.degree[order] != self.degree).any():
            raise InputError(self.source, "degree", "expected the configurations of a node by ascending degree")
        same = (np.diff(self.node) == 0) & (np.diff(self.degree) == 0) & (np.diff(self.kind[order]) == 0)
        for at in np.flatnonzero(same)[:1]:
            v, c = int(self.node[at]), int(order[at])
            place = f"nodes[{v}].TMPCs[{self.degree[c]}]"
            raise InputError(self.source, place, f"expected every id once, found {self.kinds[self.kind[c]]!r} again")

    @property
    def configurations(self) -> int:
        """Number of configurations of all nodes."""
        return int(self.start[-1])

    @cached_property
    def node(self) -> Ints:
        """Node of each configuration, shape (c,)."""
        return frozen(np.repeat(np.arange(self.nodes), np.diff(self.start)))

    @cached_property
    def incident(self) -> tuple[Ints, Ints]:
        """Return ``(start, edge)``: the edges of node v are ``edge[start[v]:start[v + 1]]``, in file order.

        Edges into the node come first, then those out of it; ``edge`` has shape (2 m,).
        """
        return incident(self.graph)


def incident(graph: Graph) -> tuple[Ints, Ints]:
    """See `Workload.incident`."""
    ends = np.concatenate([graph.head, graph.tail]).astype(np.int64)
    start = np.zeros(graph.nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(ends, minlength=graph.nodes), out=start[1:])
    return frozen(start), frozen(np.argsort(ends, kind="stable") % max(graph.edges, 1))


def recognises(document: Any) -> bool:
    """True if a JSON document looks like such a file."""
    return isinstance(document, dict) and not {"maxMemoryPerDevice", "mbsInBatch"}.isdisjoint(document)


def refuse_too_large(content: bytes, source: str) -> None:
    """Raise TooLarge if a file too large to be parsed has too many configurations, told from its bytes."""
    node = count = 0
    for key in re.finditer(rb'"(TMPCs|timePerSample)"\s*:', content):
        if key[1] == b"TMPCs":
            node += 1
            continue
        count += 1
        if count > MOST_CONFIGURATIONS:
            expected = f"expected at most {MOST_CONFIGURATIONS} configurations up to this node, found more"
            raise TooLarge(source, f"nodes[{max(node - 1, 0)}].TMPCs", expected)


def read(document: Any, source: str) -> dict[str, Any]:
    """Return the fields of a `Workload`; InputError names the place of a defect."""
    if not isinstance(document, dict):
        raise InputError(source, "", f"expected an object, found {describe(document)}")
    nodes = Records(get(document, "nodes", source, ""), source, "nodes")
    edges = Records(get(document, "edges", source, ""), source, "edges")
    ids, node_names = nodes.named()
    position = {identity: at for at, identity in enumerate(ids.tolist())}
    tail, head = (edges.ends(key, position) for key in ("sourceId", "destId"))
    graph = Graph(len(ids), tail, head, source, node_names)
    return {
        "name": require_text(document.get("name", Path(source).name.split(".")[0]), source, "name"),
        "graph": graph,
        "ids": ids,
        "node_names": node_names,
        "communicated": np.array(edges.column("communicationCost", require_number), dtype=np.float64),
        "source": source,
        **_configurations(nodes, graph, [str(i) for i in ids.tolist()], source),
    }


def _configurations(nodes: Records, graph: Graph, ids: Sequence[str], source: str) -> dict[str, Any]:
    """Return the columns of all configurations."""
    found = _Found(source)
    into, out = (_ends(*csr, ids) for csr in (graph.in_csr, graph.out_csr))
    start = [0]
    for v, node in enumerate(nodes.records):
        place = f"nodes[{v}].TMPCs"
        menu = get(node, "TMPCs", source, f"nodes[{v}]")
        if not isinstance(menu, dict) or not menu:
            raise InputError(source, place, f"expected an object with a key per degree, found {_shown(menu)}")
        for degree, key in sorted((_degree(key, source, place), key) for key in menu):
            found.add(v, degree, menu[key], into[v], out[v])
        start.append(len(found.rows))
    return found.columns(start)


def _ends(start: Ints, ends: Any, ids: Sequence[str]) -> list[dict[str, None]]:
    """For each node, the ids of its producers or consumers, in the order of the graph."""
    cuts, names = start.tolist(), [ids[v] for v in ends.tolist()]
    return [dict.fromkeys(names[a:b]) for a, b in pairwise(cuts)]


class _Found:
    """Collects configurations, and turns them into columns."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.rows: list[tuple[int, int, int]] = []  # node, degree, place in its list
        self.values: dict[str, list[Any]] = {key: [] for key in KEYS}
        self.kinds: dict[str, int] = {}
        self.kind: list[int] = []
        self.sync: list[list[Any]] = []
        self.ends: list[dict[str, None]] = []  # parallel to sync: ids of the other ends

    def add(self, node: int, degree: int, configurations: Any, into: dict[str, None], out: dict[str, None]) -> None:
        """Add the configurations of a degree of a node with these producers and consumers."""
        place = f"nodes[{node}].TMPCs[{degree}]"
        if not require_list(configurations, self.source, place):
            raise InputError(self.source, place, "expected at least one configuration")
        if len(self.rows) + len(configurations) > MOST_CONFIGURATIONS:
            raise InputError(
                self.source, place, f"expected at most {MOST_CONFIGURATIONS} configurations up to this node, found more"
            )
        for i, configuration in enumerate(configurations):
            here = f"{place}[{i}]"
            if not isinstance(configuration, dict):
                raise InputError(self.source, here, f"expected an object, found {describe(configuration)}")
            name = require_text(get(configuration, "id", self.source, here), self.source, f"{here}.id")
            self.kind.append(self.kinds.setdefault(name, len(self.kinds)))
            self.rows.append((node, degree, i))
            for key, column in self.values.items():
                default = {"default": 0} if key in OPTIONAL else {}
                column.append(get(configuration, key, self.source, here, **default))
            for key, ends, meaning in (("syncTimeFw", into, "from"), ("syncTimeBw", out, "to")):
                entries = get(configuration, key, self.source, here)
                _require_entries(entries, ends, meaning, self.source, f"{here}.{key}")
                self.sync.append([entries[end] for end in ends])
                self.ends.append(ends)

    def columns(self, start: Sequence[int]) -> dict[str, Any]:
        """Return the fields of a `Workload` that are about configurations."""

        def place(row: int, key: str) -> str:
            node, degree, i = self.rows[row]
            return f"nodes[{node}].TMPCs[{degree}][{i}].{key}"

        lengths = np.array([len(entries) for entries in self.sync], dtype=np.int64).reshape(-1, 2)
        keys = ("syncTimeFw", "syncTimeBw")
        of_sync = (f"{place(at // 2, keys[at % 2])}[{end}]" for at, ends in enumerate(self.ends) for end in ends)
        columns = {
            KEYS[key]: _numbers(values, (place(row, key) for row in range(len(values))), self.source)
            for key, values in self.values.items()
        }
        return {
            **columns,
            "start": np.array(start, dtype=np.int64),
            "degree": np.array([degree for _, degree, _ in self.rows], dtype=np.int64),
            "kind": np.array(self.kind, dtype=np.int64),
            "kinds": tuple(self.kinds),
            "sync_start": np.concatenate([[0], np.cumsum(lengths.sum(axis=1))]),
            "sync": _numbers(list(chain.from_iterable(self.sync)), of_sync, self.source),
        }


def _numbers(values: list[Any], places: Iterable[str], source: str) -> Floats:
    """Convert finite numbers >= 0 to float64; ``places`` are their places in errors."""
    if not set(map(type, values)) - {int, float}:
        try:
            column = np.array(values, dtype=np.float64)
        except OverflowError:  # an integer too large for a float
            column = np.array([np.inf])
        if ((column >= 0) & (column < np.inf)).all():
            return column
    return np.array([require_number(value, source, place) for value, place in zip(values, places, strict=True)])


def _degree(key: str, source: str, place: str) -> int:
    if not (key.isascii() and key.isdigit() and key[0] != "0" and len(key) <= 10 and int(key) < LARGEST):
        expected = f"expected a degree from 1 to {LARGEST - 1} as key"
        raise InputError(source, place, f"{expected}, found {shortened(key)}")
    return int(key)


def _require_entries(entries: Any, ends: dict[str, None], meaning: str, source: str, place: str) -> None:
    """Raise InputError unless ``entries`` is an object with exactly the keys ``ends``."""
    if not isinstance(entries, dict):
        raise InputError(source, place, f"expected an object, found {describe(entries)}")
    if entries.keys() == ends.keys():
        return
    for end in ends:
        if end not in entries:
            raise InputError(source, place, f"expected an entry for the edge {meaning} node {end}")
    other = next(key for key in entries if key not in ends)
    raise InputError(source, place, f"expected only nodes with an edge {meaning} them, found {shortened(other)}")


def _shown(value: Any) -> str:
    return "none" if value == {} else describe(value)


def document(workload: Workload) -> dict[str, Any]:
    """The nodes and edges of a workload as JSON; `read` reads them back unchanged."""
    write = _Writer(workload)
    ids, graph = workload.ids.tolist(), workload.graph
    ends = zip(graph.tail.tolist(), graph.head.tolist(), plain(workload.communicated), strict=True)
    return {
        "nodes": [write.node(v) for v in range(workload.nodes)],
        "edges": [{"sourceId": ids[u], "destId": ids[v], "communicationCost": cost} for u, v, cost in ends],
    }


class _Writer:
    """Writes the nodes of a workload."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.ids = [str(i) for i in workload.ids.tolist()]
        self.sync = plain(workload.sync)
        self.columns = {key: plain(getattr(workload, name)) for key, name in KEYS.items()}

    def node(self, v: int) -> dict[str, Any]:
        """The JSON of a node."""
        work = self.workload
        menu: dict[str, list[dict[str, Any]]] = {}
        for c in range(int(work.start[v]), int(work.start[v + 1])):
            menu.setdefault(str(work.degree[c]), []).append(self._configuration(v, c))
        return {"id": int(work.ids[v]), "name": work.node_names[v], "TMPCs": menu}

    def _configuration(self, v: int, c: int) -> dict[str, Any]:
        work = self.workload
        values = {key: column[c] for key, column in self.columns.items() if column[c] or key not in OPTIONAL}
        into = [self.ids[u] for u in work.graph.predecessors(v).tolist()]
        out = [self.ids[u] for u in work.graph.successors(v).tolist()]
        entries = self.sync[int(work.sync_start[c]) : int(work.sync_start[c + 1])]
        return {
            "id": work.kinds[work.kind[c]],
            **values,
            "syncTimeFw": dict(zip(into, entries[: len(into)], strict=True)),
            "syncTimeBw": dict(zip(out, entries[len(into) :], strict=True)),
        }
