"""Instances of ``intraop``: menus, trees and networks of any arity, with forbidden entries and limits of any kind."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import oracle_intraop

from crosscheck.draws.strata import FEWEST, MOST, SHAPES, Drawn, edges, strata
from shardmark.instances.generate import families
from shardmark.instances.intraop import Instance, parse

FORBIDDEN = 10**18

#: Sharded models of 28 to 62 nodes.
SHARDED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("sharded-transformer", {"layers": 1}),
    ("sharded-transformer", {"layers": 2}),
    ("sharded-experts", {"layers": 1}),
    ("sharded-u-net", {"levels": 2}),
    ("sharded-sequence-to-sequence", {"layers": 1, "steps": 4}),
)


def draw(index: int) -> Drawn:
    """Return the instance of an index."""
    chosen = strata(
        index,
        graph=("sharded", "sharded", "menus", "oracle", "oracle", *SHAPES),
        costs=("ordinary", "equal", "zeros", "mixed", "integers", "extreme", "nodes alone", "edges alone"),
        limit=("none", "loose", "tight", "knapsack", "least"),
        domains=(2, 3, 5, 8, 16),
        closed=(0.0, 0.0, 0.1, 0.3),
        arity=(2, 2, 2, 4),
        size=range(FEWEST, MOST + 1),
    )
    rng = random.Random(f"crosscheck intraop {index}")
    mode = f"limit {chosen['limit']}, entries {'infinite too' if chosen['closed'] else 'finite'}"
    return Drawn(_drawn(rng, chosen), mode, f"{chosen['graph']}, {chosen['costs']}")


def _drawn(rng: random.Random, chosen: dict[str, Any]) -> Instance:
    graph, nodes = chosen["graph"], chosen["size"]
    tightness = {"none": 0.0, "loose": 0.1, "tight": 0.6, "knapsack": 0.8, "least": 1.0}[chosen["limit"]]
    if graph == "oracle":
        return oracle_intraop.draw_of(rng, min(nodes, 40), min(chosen["domains"], 8))
    if graph == "sharded":
        name, size = rng.choice(SHARDED)
        more = {"mesh": rng.choice(["8", "2x4", "2x2"]), "training": rng.choice([0, 1]), "joint": rng.choice([0, 1])}
        return families()[name].build(rng.randrange(2**31), **size, **more, tightness=tightness)
    if graph == "menus":
        menus = {"nodes": nodes, "largest_menu": chosen["domains"], "longest": rng.choice([1, 5, 40])}
        return families()["menus"].build(rng.randrange(2**31), **menus, tightness=tightness)
    return _network(rng, chosen, graph, nodes)


def _network(rng: random.Random, chosen: dict[str, Any], graph: str, nodes: int) -> Instance:
    """Return a network on a graph; the limit leaves the strategies of least memory, and is feasible but for luck."""
    menus = [rng.randint(1 if chosen["domains"] > 2 else 2, chosen["domains"]) for _ in range(nodes)]
    scopes = _scopes(rng, edges(graph, nodes, rng), menus, chosen["arity"])
    node, table = _sources(chosen["costs"], rng)
    begins = [rng.randint(0, nodes) for _ in range(nodes)]
    if chosen["limit"] in ("least", "knapsack"):
        begins = [0] * nodes  # one time step for all
    open_cell = [[rng.randrange(menu) for menu in menus] for _ in range(2)]  # assignments that no entry forbids
    problem: dict[str, Any] = {
        "nodes": {
            "intervals": [[begin, begin + rng.randint(1, 12)] for begin in begins],
            "costs": [[node() for _ in range(menu)] for menu in menus],
            "usages": [[rng.choice([0, rng.randint(0, 1000)]) for _ in range(menu)] for menu in menus],
        },
        "edges": {
            "nodes": scopes,
            "costs": [_table(scope, menus, table, chosen["closed"], open_cell, rng) for scope in scopes],
        },
    }
    if chosen["limit"] == "knapsack":
        _trade(problem["nodes"], rng)
    problem["usage_limit"] = _limit(chosen["limit"], problem, open_cell[0], rng)
    return parse({"problem": problem}, "drawn")


def _scopes(rng: random.Random, pairs: list[tuple[int, int]], menus: list[int], arity: int) -> list[list[int]]:
    """Return the scopes of edges, some of them with up to ``arity`` nodes if their tables stay small."""
    scopes = [[u, v] for u, v in pairs]
    for scope in scopes if arity > 2 else []:
        while len(scope) < arity and rng.random() < 0.4:
            v = rng.randrange(len(menus))
            if math.prod(menus[u] for u in [*scope, v]) > 2000:
                break
            scope.append(v)
    return scopes


def _sources(costs: str, rng: random.Random) -> tuple[Callable[[], int], Callable[[], int]]:
    """Return sources of the costs of nodes and of entries of tables."""
    constant = rng.randint(1, 1000)
    kinds: dict[str, Callable[[], int]] = {
        "ordinary": lambda: rng.randint(1, 10**6),
        "equal": lambda: constant,
        "zeros": lambda: rng.choice([0, 0, 0, rng.randint(1, 9)]),
        "mixed": lambda: int(10 ** rng.uniform(0, 12)),
        "integers": lambda: rng.randint(1, 9),
    }
    if costs == "nodes alone":
        return kinds["mixed"], lambda: 0
    if costs == "edges alone":
        return lambda: 0, kinds["integers"]
    source = oracle_intraop.numbers(rng) if costs == "extreme" else kinds[costs]
    return source, source


def _table(
    scope: list[int],
    menus: list[int],
    source: Callable[[], int],
    closed: float,
    kept: list[list[int]],
    rng: random.Random,
) -> list[int]:
    """Return the table of an edge, now and then a functional one: all but one strategy of the last node forbidden."""
    size, last = math.prod(menus[v] for v in scope), menus[scope[-1]]
    functional = closed and rng.random() < 0.3
    only = [rng.randrange(last) for _ in range(size // last)]

    def forbidden(cell: int) -> bool:
        return cell % last != only[cell // last] if functional else rng.random() < closed

    table = [FORBIDDEN if forbidden(cell) else source() for cell in range(size)]
    for assignment in kept:
        cell = 0
        for v in scope:
            cell = cell * menus[v] + assignment[v]
        if table[cell] == FORBIDDEN:
            table[cell] = source()
    return table


def _trade(nodes: dict[str, Any], rng: random.Random) -> None:
    """Add to costs what makes memory worth nearly the same everywhere, so that no price of memory decides."""
    price = rng.choice([1, 100, 10**6])
    for costs, usages in zip(nodes["costs"], nodes["usages"], strict=True):
        most = max(usages)
        costs[:] = [min(cost, 10**18) + price * (most - usage) for cost, usage in zip(costs, usages, strict=True)]


def _limit(kind: str, problem: dict[str, Any], kept: list[int], rng: random.Random) -> int | None:
    """Return a limit that an assignment without forbidden entries mostly keeps, or the least that keeps it."""
    intervals, usages = problem["nodes"]["intervals"], problem["nodes"]["usages"]
    live = [(begin, end, usage[s]) for (begin, end), usage, s in zip(intervals, usages, kept, strict=True)]
    need = max(sum(u for a, b, u in live if a <= t < b) for t, _, _ in live)
    least = max(0, need - rng.choice([0, 0, 1]))
    return {"none": None, "loose": 2 * need, "tight": need, "knapsack": need, "least": least}[kind]
