"""A sharding problem in the contest's form: nodes with strategies, and tables of costs between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.intraop import Instance

IMPOSSIBLE = 10**18


class Node(Protocol):
    """A node: it is live in the time steps [begin, end); ``costs`` and ``usages`` have an entry per strategy."""

    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...
    @property
    def costs(self) -> Ints: ...
    @property
    def usages(self) -> Ints: ...


class Edge(Protocol):
    """An edge: ``costs`` has an axis per node of ``nodes``."""

    @property
    def nodes(self) -> tuple[int, ...]: ...
    @property
    def costs(self) -> Ints: ...


def instance_of(name: str, nodes: Sequence[Node], edges: Sequence[Edge], limit: int | None) -> Instance:
    """The instance of these nodes and edges, with a limit in bytes."""
    empty = np.zeros(0, dtype=np.int64)
    return Instance(
        name=name,
        begin=np.array([node.begin for node in nodes], dtype=np.int64),
        end=np.array([node.end for node in nodes], dtype=np.int64),
        strategy_start=_starts([len(node.costs) for node in nodes]),
        node_cost=np.concatenate([empty, *(node.costs for node in nodes)]),
        usage=np.concatenate([empty, *(node.usages for node in nodes)]),
        scope_start=_starts([len(edge.nodes) for edge in edges]),
        scope=np.array([node for edge in edges for node in edge.nodes], dtype=np.int64),
        table_start=_starts([edge.costs.size for edge in edges]),
        table=np.concatenate([empty, *(edge.costs.ravel() for edge in edges)]),
        usage_limit=limit,
        source=name,
    )


def _starts(lengths: Sequence[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(np.array(lengths, dtype=np.int64))]).astype(np.int64)
