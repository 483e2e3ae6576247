"""Strategies of an `intraop` solution: memory over time, where its cost arises, and which strategies it has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from shardmark.harness import verify
from shardmark.harness.results import claims
from shardmark.harness.verify import Choices
from shardmark.harness.verify.intraop import exact_sum, usage_profile
from shardmark.instances.files.columns import Floats, Ints
from shardmark.leaderboard.report import Memory, Share, Shares
from shardmark.leaderboard.text import count, exact, percent

LARGEST = 10  # nodes and edges that are named
RANKS = 5  # of strategies by cost that have rows of their own
#: Kinds of nodes by their choice; the number of a node's kind is its index here.
FORCED, CHEAPEST, DEARER = range(3)
MEMORY_KINDS = ("nodes with one strategy", "nodes with their cheapest strategy", "nodes with a more expensive strategy")
ORDINALS = ("cheapest", "2nd cheapest", "3rd cheapest", "4th cheapest", "5th cheapest")


class Drawings(NamedTuple):
    """The pictures of a solution."""

    memory: Memory
    costs: Shares
    largest: Shares
    strategies: Shares


def drawings(instance: Any, solution: Any, *, bound: float | None = None, caption: str = "") -> Drawings | None:
    """Return the pictures of a solution; None if it is malformed, or there are no nodes."""
    chosen = verify.choices(instance, solution)
    if chosen is None or not instance.nodes:
        return None
    facts = _Facts(instance, chosen)
    return Drawings(facts.memory(caption), facts.costs(bound), facts.largest(), facts.strategies())


def least(values: Ints, start: Ints) -> Ints:
    """The least value of every row: shape (rows,); row i is ``values[start[i]:start[i + 1]]``, not empty."""
    return np.minimum.reduceat(values, start[:-1]) if len(start) > 1 else values[:0]


class _Facts:
    """Costs of the chosen strategies and of the cheapest ones, all int64: shape (n,) of nodes, (m,) of edges."""

    def __init__(self, instance: Any, chosen: Choices) -> None:
        self.instance, self.chosen = instance, chosen
        self.of_node, self.of_edge = instance.node_cost[chosen.row], instance.table[chosen.cell]
        self.cheapest_node = least(instance.node_cost, instance.strategy_start)
        self.cheapest_edge = least(instance.table, instance.table_start)
        self.total = exact_sum(self.of_node) + exact_sum(self.of_edge)

    def memory(self, caption: str) -> Memory:
        """Memory in use over time, by the kind of choice of the nodes that use it."""
        instance, usage = self.instance, self.instance.usage[self.chosen.row]
        kind = np.where(self.of_node > self.cheapest_node, DEARER, CHEAPEST)
        kind = np.where(instance.strategies == 1, FORCED, kind)
        used = [(words, self._profile(np.where(kind == i, usage, 0))) for i, words in enumerate(MEMORY_KINDS)]
        begin, until, _, _ = usage_profile(instance, usage)
        return Memory(
            begin=begin.tolist(),
            until=until.tolist(),
            used=[(words, values.tolist()) for words, values in used if values.any()],
            least=self._profile(least(instance.usage, instance.strategy_start)).tolist(),
            limit=instance.usage_limit,
            title="Memory over time",
            caption=caption,
        )

    def _profile(self, usage: Ints) -> Floats:
        _, _, high, low = usage_profile(self.instance, usage)
        return np.asarray(high * 2.0**32 + low, dtype=np.float64)

    def costs(self, bound: float | None) -> Shares:
        """The cost in four steps: nodes and edges at their cheapest, and what the choice costs above that."""
        steps = (
            ("nodes, cheapest", exact_sum(self.cheapest_node), "every node with its cheapest strategy", "node"),
            ("edges, cheapest", exact_sum(self.cheapest_edge), "every edge at its least cost", "edge"),
            ("nodes, above", exact_sum(self.of_node - self.cheapest_node), self._above_nodes(), "node above"),
            ("resharding", exact_sum(self.of_edge - self.cheapest_edge), self._above_edges(), "edge above"),
        )
        rows, start = [], 0
        for name, cost, words, style in steps:
            share = percent(cost / self.total) if self.total else "0 %"
            rows.append(Share(name, float(start), float(cost), share, f"{name}: {cost:,}, {words}", f"part {style}"))
            start += cost
        marks = [(float(self.total), f"cost {self.total:,}", "base")]
        if bound is not None and claims.gap(self.total, bound) == 0:
            marks = [(float(self.total), f"cost = lower bound: {self.total:,}", "limit")]
        elif bound is not None:
            marks.append((float(bound), f"lower bound {exact(repr(bound))}", "limit"))
        words = (
            "From left to right. The first two rows are the least costs of all nodes and of all edges, each taken "
            "alone; no solution can avoid them. The last two rows are what this solution adds: more expensive "
            "strategies, which save memory or agree with their neighbours, and tensors that change their sharding "
            "between nodes."
        )
        return Shares(rows, "cost", marks, "Where the cost arises", words)

    def _above_nodes(self) -> str:
        return f"{count(int((self.of_node > self.cheapest_node).sum()), 'node')} above the cheapest"

    def _above_edges(self) -> str:
        return f"{count(int((self.of_edge > self.cheapest_edge).sum()), 'edge')} above the least"

    def largest(self) -> Shares:
        """The nodes and edges with the greatest costs; the part above the cheapest has a colour of its own."""
        found = sorted([*self._named("node", self.of_node), *self._named("edge", self.of_edge)], key=lambda x: -x[0])
        rows = []
        for cost, kind, i in found[:LARGEST]:
            cheapest = int((self.cheapest_node if kind == "node" else self.cheapest_edge)[i])
            name, words = self._words(kind, i)
            share = percent(cost / self.total) if self.total else "0 %"
            told = f"{words}: cost {cost:,}, at least {cheapest:,}"
            style = f"part {kind}" if cost == cheapest else f"part {kind} above"
            rows.append(Share(name, 0.0, float(cost), share, told, style))
        together = sum(cost for cost, _, _ in found[:LARGEST])
        share = percent(together / self.total) if self.total else "0 %"
        words = f"Together {share} of the cost of {count(self.instance.nodes, 'node')} and "
        words += f"{count(self.instance.edges, 'edge')}. Strong colours mark costs above the least possible one."
        return Shares(rows, "cost", title="The greatest costs", caption=words)

    def _named(self, kind: str, costs: Ints) -> Iterator[tuple[int, str, int]]:
        """The greatest positive costs of a kind, with the indices; among ties the first."""
        order = np.argsort(-costs, kind="stable")[:LARGEST]
        for i in order.tolist():
            if costs[i] > 0:
                yield int(costs[i]), kind, i

    def _words(self, kind: str, i: int) -> tuple[str, str]:
        instance = self.instance
        if kind == "node":
            strategy = int(self.chosen.row[i] - instance.strategy_start[i])
            return f"node {i}", f"node {i} with strategy {strategy} of {instance.strategies[i]}"
        ends = instance.scope[instance.scope_start[i] : instance.scope_start[i + 1]].tolist()
        return f"edge {'–'.join(map(str, ends[:3]))}", f"edge {i} between the nodes {', '.join(map(str, ends))}"

    def strategies(self) -> Shares:
        """Numbers of nodes with their cheapest strategy, their second cheapest, and so on; equal costs share a rank."""
        instance = self.instance
        cheaper = instance.node_cost < np.repeat(self.of_node, instance.strategies)
        rank = np.add.reduceat(cheaper.astype(np.int64), instance.strategy_start[:-1])
        free = instance.strategies > 1
        groups: list[tuple[str, Any]] = [("only one", ~free)]
        groups += [(name, free & (rank == i)) for i, name in enumerate(ORDINALS[:RANKS])]
        groups.append(("even more expensive", free & (rank >= RANKS)))
        rows = []
        for name, members in groups:
            number = int(members.sum())
            if number:
                cost = percent(exact_sum(self.of_node[members]) / self.total) if self.total else "0 %"
                words = f"{name}: {count(number, 'node')}, {cost} of the cost"
                style = "part node" if name in ("only one", ORDINALS[0]) else "part node above"
                rows.append(Share(name, 0.0, float(number), f"{number:,}", words, style))
        words = "Nodes by the rank of their strategy's cost among their own strategies; equal costs share a rank."
        return Shares(rows, "nodes", title="Which strategies", caption=words)


def peak(memory: Memory) -> tuple[float, int]:
    """The greatest memory in use, and the time step at which that begins; (0, 0) without any."""
    totals = total(memory)
    if not len(totals):
        return 0.0, 0
    worst = int(np.argmax(totals))
    return float(totals[worst]), int(memory.begin[worst])


def total(memory: Memory) -> Floats:
    """Memory in use, of all kinds together: shape (steps,)."""
    columns: list[Floats] = [np.asarray(values, dtype=np.float64) for _, values in memory.used]
    return sum(columns, start=np.zeros(len(memory.begin)))
