"""Track ``intraop``: one sharding strategy per operator, least cost, a memory limit at every time step.

The file format is that of the ASPLOS/EuroSys 2025 Contest on Intra-Operator Parallelism, unchanged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from shardmark.instances.errors import InputError
from shardmark.instances.evaluator import Evaluator
from shardmark.instances.files.columns import (
    Ints,
    describe,
    freeze_columns,
    int_pairs,
    ragged_ints,
    require_int,
    require_rows,
    require_text,
)
from shardmark.instances.files.jsonfile import require_keys
from shardmark.instances.options import Option

OPTIONS: Mapping[str, Option] = {}
RAGGED = True
LARGEST = 2**63 - 1  # a usage limit; the contest's reader holds it in 64 bits
INFINITE = 10**18  # costs from here on stand for infinity in the contest's files


@dataclass(frozen=True, eq=False)
class Instance(Evaluator):
    """Strategies, costs and memory use of n nodes joined by m edges of any arity; all arrays int64, read-only.

    ``begin``, ``end``            shape (n,): node v is live, and uses memory, in the time steps [begin[v], end[v])
    ``strategy_start``            shape (n + 1,): strategies of v are ``strategy_start[v]:strategy_start[v + 1]`` of
    ``node_cost``, ``usage``      shape (strategies,): cost and memory (bytes) of each strategy, all >= 0
    ``scope_start``, ``scope``    edge e joins the nodes ``scope[scope_start[e]:scope_start[e + 1]]`` (nodes may recur)
    ``table_start``, ``table``    its costs, ``table[table_start[e]:table_start[e + 1]]``: row-major over the
                                  strategies of its nodes, the last node's index changes fastest, all >= 0
    ``usage_limit``               bytes that live nodes together may use in any time step; None: no limit (the contest's
                                  reader accepts files without one)

    Single entries fit into 64 bits, but sums may not: compute totals in Python integers.
    """

    track: ClassVar[str] = "intraop"

    name: str
    begin: Ints
    end: Ints
    strategy_start: Ints
    node_cost: Ints
    usage: Ints
    scope_start: Ints
    scope: Ints
    table_start: Ints
    table: Ints
    usage_limit: int | None
    source: str = field(default="instance", repr=False)

    def __post_init__(self) -> None:
        self._check_nodes()
        self._check_edges()
        if self.usage_limit is not None and not 0 <= self.usage_limit <= LARGEST:
            raise InputError(self.source, "usage_limit", f"expected 0 to 2^63 - 1, found {describe(self.usage_limit)}")
        freeze_columns(self)

    def _check_nodes(self) -> None:
        late = (self.begin < 0) | (self.end < self.begin)
        for at in np.flatnonzero(late)[:1]:
            expected = f"expected 0 <= begin <= end, found [{self.begin[at]}, {self.end[at]}]"
            raise InputError(self.source, f"nodes.intervals[{at}]", expected)
        self._refuse_negative("nodes.costs", self.node_cost, self.strategy_start)
        self._refuse_negative("nodes.usages", self.usage, self.strategy_start)
        for at in np.flatnonzero(self.strategies < 1)[:1]:
            raise InputError(self.source, f"nodes.costs[{at}]", "expected at least one strategy")

    def _refuse_negative(self, place: str, column: Ints, start: Ints) -> None:
        if column.min(initial=0) < 0:
            at = int(np.argmax(column < 0))
            row = int(np.searchsorted(start, at, side="right")) - 1
            expected = f"expected at least 0, found {column[at]}"
            raise InputError(self.source, f"{place}[{row}][{at - start[row]}]", expected)

    def _check_edges(self) -> None:
        self._refuse_negative("edges.costs", self.table, self.table_start)
        bad = (self.scope < 0) | (self.scope >= self.nodes)
        for at in np.flatnonzero(bad)[:1]:
            edge = int(np.searchsorted(self.scope_start, at, side="right")) - 1
            expected = f"expected node indices from 0 to {self.nodes - 1}, found {self.scope[at]}"
            raise InputError(self.source, f"edges.nodes[{edge}]", expected)
        if not self.edges:
            return
        arity = np.diff(self.scope_start)
        for at in np.flatnonzero(arity < 1)[:1]:
            raise InputError(self.source, f"edges.nodes[{at}]", "expected at least one node")
        counts = self.strategies[self.scope]
        found = np.diff(self.table_start)
        with np.errstate(over="ignore"):  # float64: exact as far as lists can be long, larger ones differ anyway
            wrong = np.multiply.reduceat(counts.astype(np.float64), self.scope_start[:-1]) != found
        for at in np.flatnonzero(wrong)[:1]:
            count = math.prod(counts[self.scope_start[at] : self.scope_start[at + 1]].tolist())
            expected = f"expected {describe(count)} costs, one per combination of strategies, found {found[at]}"
            raise InputError(self.source, f"edges.costs[{at}]", expected)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.begin)

    @property
    def edges(self) -> int:
        """Number of edges of any arity."""
        return len(self.scope_start) - 1

    @property
    def strategies(self) -> Ints:
        """Number of strategies of every node, shape (n,)."""
        return np.diff(self.strategy_start)

    def summary(self) -> dict[str, Any]:
        """Facts for ``shardmark info`` and the leaderboard."""
        arity = np.diff(self.scope_start)
        least = np.minimum.reduceat(self.usage, self.strategy_start[:-1]) if self.nodes else self.usage
        degree = np.bincount(self.scope, minlength=max(self.nodes, 1))
        return {
            "track": self.track,
            "name": self.name,
            "nodes": self.nodes,
            "edges": self.edges,
            "largest_arity": int(arity.max(initial=0)),
            "largest_degree": int(degree.max(initial=0)),
            "strategies": len(self.node_cost),
            "largest_menu": int(self.strategies.max(initial=0)),
            "edge_costs": len(self.table),
            "largest_cost": max(int(self.node_cost.max(initial=0)), int(self.table.max(initial=0))),
            "time_steps": int(self.end.max(initial=0)),
            "usage_limit": self.usage_limit,
            "least_peak_usage": self.peak(least),
            "simple_bound": self.cheapest_parts(),
        }

    def cheapest_parts(self) -> int:
        """Simplest lower bound: the sum of the least costs of all nodes and edges, exact."""
        total = 0
        for values, start in ((self.node_cost, self.strategy_start), (self.table, self.table_start)):
            if len(start) > 1:
                total += sum(np.minimum.reduceat(values, start[:-1]).tolist())
        return total

    def peak(self, usage_of_node: Ints) -> int:
        """Greatest total of ``usage_of_node``, shape (n,), over all time steps, exact."""
        live = self.end > self.begin
        times = np.concatenate([self.begin[live], self.end[live]])
        change = [*usage_of_node[live].tolist(), *(-usage_of_node[live]).tolist()]
        order = np.lexsort((np.repeat([1, 0], live.sum()), times))  # at a time step, ends come before beginnings
        total = best = 0
        for i in order.tolist():
            total += change[i]
            best = max(best, total)
        return best


def recognises(document: Any) -> bool:
    """True if the document is a contest file: an object with the key ``problem``."""
    return isinstance(document, dict) and "problem" in document


def parse(document: Any, source: str) -> Instance:
    """Build an instance from the contest's JSON; InputError names the place of the first defect."""
    require_keys(document, source, "", ("problem",), ("comment",))
    problem = require_keys(
        document["problem"], source, "problem", ("nodes", "edges"), ("usage_limit", "name", "comment")
    )
    limit = problem.get("usage_limit")
    return Instance(
        name=require_text(problem.get("name", "intraop"), source, "name"),
        **_nodes(problem["nodes"], source),
        **_edges(problem["edges"], source),
        usage_limit=None if limit is None else require_int(limit, source, "usage_limit"),
        source=source,
    )


def _nodes(document: Any, source: str) -> dict[str, Ints]:
    """The node columns of an instance."""
    nodes = require_keys(document, source, "nodes", ("intervals", "costs", "usages"))
    intervals = require_rows(nodes["intervals"], source, "nodes.intervals")
    costs = require_rows(nodes["costs"], source, "nodes.costs", len(intervals))
    usages = require_rows(nodes["usages"], source, "nodes.usages", len(intervals))
    begin, end = int_pairs(intervals, source, "nodes.intervals", "[begin, end]")
    strategy_start, node_cost = ragged_ints(costs, source, "nodes.costs", least=0)
    usage_start, usage = ragged_ints(usages, source, "nodes.usages", least=0)
    unequal = np.diff(usage_start) != np.diff(strategy_start)
    for at in np.flatnonzero(unequal)[:1].tolist():
        expected = f"expected {len(costs[at])} usages, one per cost, found {len(usages[at])}"
        raise InputError(source, f"nodes.usages[{at}]", expected)
    return {
        "begin": begin.copy(),
        "end": end.copy(),
        "strategy_start": strategy_start,
        "node_cost": node_cost,
        "usage": usage,
    }


def _edges(document: Any, source: str) -> dict[str, Ints]:
    """The edge columns of an instance."""
    edges = require_keys(document, source, "edges", ("nodes", "costs"))
    scopes = require_rows(edges["nodes"], source, "edges.nodes")
    tables = require_rows(edges["costs"], source, "edges.costs", len(scopes))
    scope_start, scope = ragged_ints(scopes, source, "edges.nodes")
    table_start, table = ragged_ints(tables, source, "edges.costs", least=0)
    return {"scope_start": scope_start, "scope": scope, "table_start": table_start, "table": table}


def to_document(instance: Instance) -> dict[str, Any]:
    """The contest's JSON of an instance."""

    def rows(flat: Ints, start: Ints) -> list[list[int]]:
        values, cuts = flat.tolist(), start.tolist()
        return [values[a:b] for a, b in itertools.pairwise(cuts)]

    return {
        "problem": {
            "name": instance.name,
            "nodes": {
                "intervals": np.column_stack([instance.begin, instance.end]).tolist(),
                "costs": rows(instance.node_cost, instance.strategy_start),
                "usages": rows(instance.usage, instance.strategy_start),
            },
            "edges": {
                "nodes": rows(instance.scope, instance.scope_start),
                "costs": rows(instance.table, instance.table_start),
            },
            **({} if instance.usage_limit is None else {"usage_limit": instance.usage_limit}),
        }
    }
