#!/usr/bin/env python3
"""Local search for the contest's problem, in plain Python: ``search.py FILE SECONDS``.

Knows nothing of Shardmark but its protocol: every better solution and every bound is a line of JSON on standard output.
"""

import json
import random
import sys
import time


class Search:
    """A choice of one strategy per node that never exceeds the memory limit, and its cost."""

    def __init__(self, problem):
        nodes, edges = problem["nodes"], problem["edges"]
        self.intervals, self.costs, self.usages = nodes["intervals"], nodes["costs"], nodes["usages"]
        self.scopes, self.tables = edges["nodes"], edges["costs"]
        self.limit = problem.get("usage_limit")
        self.strides, self.touching = [], [[] for _ in self.costs]
        for edge, scope in enumerate(self.scopes):
            strides = {}  # place of an edge's cost: the sum over its nodes of strategy times stride
            stride = 1
            for node in reversed(scope):
                strides[node] = strides.get(node, 0) + stride
                stride *= len(self.costs[node])
            self.strides.append(strides)
            for node in strides:
                self.touching[node].append(edge)
        self.choice = [usage.index(min(usage)) for usage in self.usages]  # feasible if anything is
        self.used = [0] * max((end for _, end in self.intervals), default=0)
        for node, strategy in enumerate(self.choice):
            self.use(node, self.usages[node][strategy])
        self.feasible = self.limit is None or max(self.used, default=0) <= self.limit
        self.cost = sum(self.costs[v][s] for v, s in enumerate(self.choice))
        self.cost += sum(table[self.place(edge)] for edge, table in enumerate(self.tables))

    def bound(self):
        """Return a lower bound: every node and every edge costs at least its least entry."""
        return sum(map(min, self.costs)) + sum(map(min, self.tables))

    def place(self, edge):
        return sum(self.choice[node] * stride for node, stride in self.strides[edge].items())

    def use(self, node, more):
        begin, end = self.intervals[node]  # half-open
        for step in range(begin, end):
            self.used[step] += more

    def prices(self, node):
        """Return for each strategy of a node what the node and its edges cost."""
        prices = list(self.costs[node])
        for edge in self.touching[node]:
            table, stride = self.tables[edge], self.strides[edge][node]
            first = self.place(edge) - self.choice[node] * stride
            for strategy in range(len(prices)):
                prices[strategy] += table[first + strategy * stride]
        return prices

    def fits(self, node, strategy):
        more = self.usages[node][strategy] - self.usages[node][self.choice[node]]
        begin, end = self.intervals[node]
        return more <= 0 or self.limit is None or max(self.used[begin:end], default=0) + more <= self.limit

    def choose(self, node, strategy, prices):
        before = self.choice[node]
        self.use(node, self.usages[node][strategy] - self.usages[node][before])
        self.cost += prices[strategy] - prices[before]
        self.choice[node] = strategy

    def descend(self, waiting, trail, end):
        """Improve nodes until none of those that wait can be; record in ``trail`` what changed."""
        while waiting and time.monotonic() < end:
            node = waiting.pop()
            prices = self.prices(node)
            for strategy in sorted(range(len(prices)), key=prices.__getitem__):
                if prices[strategy] >= prices[self.choice[node]]:
                    break
                if self.fits(node, strategy):
                    trail.append((node, self.choice[node]))
                    self.choose(node, strategy, prices)
                    waiting.update(other for edge in self.touching[node] for other in self.scopes[edge])
                    break


def solve(problem, end, seed):
    search, draw = Search(problem), random.Random(seed)
    print(json.dumps({"bound": search.bound()}), flush=True)
    if not search.feasible:
        print("no choice of strategies fits into the memory")  # any other line is log
        return
    search.descend(set(range(len(search.choice))), [], end)
    reported, last = None, 0.0
    while search.choice:
        now = time.monotonic()
        if search.cost != reported and now > last + 0.1:  # a few reports per second: a large solution is a long line
            print(json.dumps({"solution": search.choice, "cost": search.cost}), flush=True)
            reported, last = search.cost, now
        if now >= end:
            break
        before, trail = search.cost, []
        node = draw.randrange(len(search.choice))  # change one node, and let its neighbours follow
        strategy = draw.randrange(len(search.costs[node]))
        if search.fits(node, strategy):
            trail.append((node, search.choice[node]))
            search.choose(node, strategy, search.prices(node))
            neighbours = {other for edge in search.touching[node] for other in search.scopes[edge]}
            search.descend(neighbours - {node}, trail, end)
        if search.cost > before:
            for changed, strategy in reversed(trail):
                search.choose(changed, strategy, search.prices(changed))
    print(json.dumps(search.choice))  # the contest's answer: the last line that is a list


if __name__ == "__main__":
    start = time.monotonic()
    with open(sys.argv[1]) as file:
        content = json.load(file)
    solve(content["problem"], start + 0.9 * float(sys.argv[2]), seed=7)
