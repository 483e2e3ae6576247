"""Softened messages lead to good ones; whatever they are, what is adopted of them proves nothing wrong."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from shardmark.solvers.intraop._kernels import FORBIDDEN, NO_USE, SoftTrws, Trws

TOP = 2**40


def draw(rng, *, largest=2**30, never=0.2, tree=False):
    """Columns of a network of up to six variables, and the costs of all its assignments; `FORBIDDEN` if forbidden."""
    sizes = rng.integers(1, 11, int(rng.integers(2, 6)))
    start = np.concatenate([[0], np.cumsum(sizes)])
    joined = [(i, j) for j in range(1, len(sizes)) for i in range(j) if tree or rng.random() < 0.6]
    if tree:
        joined = [(int(rng.integers(0, j)), j) for j in range(1, len(sizes))]
    tables = [rng.integers(0, largest, (sizes[i], sizes[j])) for i, j in joined]
    for table in tables:
        table[rng.random(table.shape) < never] = FORBIDDEN
    cost = rng.integers(0, largest, int(start[-1]))
    tail, head = np.array(joined, dtype=np.int64).reshape(-1, 2).T
    cell = np.concatenate([np.zeros(0, dtype=np.int64), *(table.ravel() for table in tables)])
    costs = {}
    for value in product(*map(range, sizes.tolist())):
        parts = [int(t[value[i], value[j]]) for (i, j), t in zip(joined, tables, strict=True)]
        total = sum(parts) + sum(int(cost[start[v] + k]) for v, k in enumerate(value))
        costs[value] = FORBIDDEN if FORBIDDEN in parts else total
    return (start, tail, head, cell, cost), costs


@pytest.mark.thorough(cases=10)
@pytest.mark.parametrize("seed", range(30))
def test_a_tree_is_solved_as_softness_falls(seed):
    columns, costs = draw(np.random.default_rng(seed), never=0.0, tree=True)
    network = Trws(*columns, top=TOP)
    soft = SoftTrws(network, columns[-1].astype(np.float64))
    for softness in 2.0 ** np.arange(28, 8, -2):
        soft.sweep(3, softness)
    best = min(costs.values())
    assert costs[tuple(soft.round().tolist())] <= best * (1 + 1e-3)
    network.reparametrise(columns[-1], 0, np.rint(soft.reparametrised()[1]).astype(np.int64))
    network.sweep(0)
    assert best * (1 - 1e-3) - 2**12 <= network.bound <= best


@pytest.mark.thorough(cases=30)
@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("size", [2**20, 2**50, 2**58])
def test_any_messages_give_a_bound_and_lose_nothing(seed, size):
    rng = np.random.default_rng(seed)
    columns, costs = draw(rng)
    best = min(costs.values())
    top = min(TOP, best + 2**20)
    network = Trws(*columns, top=top)
    network.reparametrise(columns[-1], 0, rng.integers(-size, size + 1, int(network.message[-1])))
    network.sweep(2)  # keeps NO_USE
    assert network.bound <= min(top, best)
    assert network.bound > NO_USE or size > 2**50
    if NO_USE < network.bound < top:
        kept, _ = network.prune()
        for value, cost in costs.items():
            assert cost >= top or kept[columns[0][:-1] + value].all()


@pytest.mark.parametrize("sizes", [(9, 3), (90, 60)])  # in wide tables, rows that do not count are left out
def test_weights_are_those_of_the_assignments(sizes):
    # on one pair, softened messages compute the marginals exactly
    rng, (rows, columns), softness = np.random.default_rng(1), sizes, 6.0
    cell, cost = rng.integers(0, 100, sizes), rng.integers(0, 100, rows + columns)
    cell += rng.integers(0, 20, (rows, 1)) ** 3
    start = np.array([0, rows, rows + columns])
    network = Trws(start, np.array([0]), np.array([1]), cell.ravel(), cost, top=TOP)
    soft = SoftTrws(network, cost.astype(np.float64))
    soft.sweep(2, softness)
    joint = np.exp(-(cell + cost[:rows, None] + cost[None, rows:]) / softness)
    weight = np.exp(-soft.belief / softness)
    assert weight[:rows] / weight[:rows].sum() == pytest.approx(joint.sum(axis=1) / joint.sum(), rel=1e-3)
    assert weight[rows:] / weight[rows:].sum() == pytest.approx(joint.sum(axis=0) / joint.sum(), rel=1e-3)


@pytest.mark.thorough(cases=7)
@pytest.mark.parametrize("seed", range(20))
def test_what_is_forbidden_says_nothing(seed):
    rng = np.random.default_rng(seed)
    (start, tail, head, cell, cost), _ = draw(rng, never=0.0)
    sizes = np.diff(start)
    keep = rng.random(len(cost)) < 0.6
    keep[start[:-1] + rng.integers(sizes)] = True
    rows = [start[v] + np.arange(size) for v, size in enumerate(sizes)]
    both = [keep[rows[i]][:, None] & keep[rows[j]] for i, j in zip(tail, head, strict=True)]
    open_ = np.concatenate([np.zeros(0, dtype=bool), *(part.ravel() for part in both)])
    left = np.concatenate([[0], np.cumsum(keep)])[start]
    some_pairs = np.repeat(rng.random(len(tail)) < 0.5, sizes[tail] * sizes[head])  # the others say nothing of it
    whole = Trws(start, tail, head, np.where(open_ | some_pairs, cell, FORBIDDEN), np.where(keep, cost, FORBIDDEN), TOP)
    fewer = Trws(left, tail, head, cell[open_], cost[keep], TOP)
    some, all_ = (SoftTrws(one, one.cost.astype(np.float64)) for one in (fewer, whole))
    for soft in (some, all_):
        soft.sweep(4, 2.0**26)
    assert all_.belief[keep] == pytest.approx(some.belief, rel=1e-4, abs=2.0**12)
    assert (all_.belief[~keep] > 2.0**50).all()
    assert keep[start[:-1] + all_.round()].all()


def test_sweeps_move_no_constant_without_end():
    # absolute messages would move some softnesses per pair and sweep to variable 0, which shares a pair with all others
    rng = np.random.default_rng(0)
    variables, size, softness = 41, 16, 2.0**46
    pairs = sorted({(0, v) for v in range(1, variables)} | {(v, v + 1) for v in range(1, variables - 1)})
    tail, head = np.array(pairs).T
    cell = rng.integers(0, 2**50, len(pairs) * size**2)
    network = Trws(np.arange(variables + 1) * size, tail, head, cell, np.zeros(variables * size, dtype=np.int64), TOP)
    soft = SoftTrws(network, network.cost.astype(np.float64))
    soft.sweep(100, softness)
    before = [np.abs(part).max() for part in soft.reparametrised()]
    soft.sweep(2000, softness)
    after = [np.abs(part).max() for part in soft.reparametrised()]
    assert after[0] < 2 * before[0]
    assert after[1] < 2 * before[1]


@pytest.mark.parametrize("seed", range(10))
def test_messages_do_not_depend_on_how_many_are_computed_at_once(seed):
    # domains of one to three vectors, and of more from which on rows are left out
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 7, 8, 9, 16, 17, 33, 70], 6)
    start = np.concatenate([[0], np.cumsum(sizes)])
    tail, head = np.array([(i, j) for j in range(6) for i in range(j)]).T
    cell = rng.integers(0, 2**30, int((sizes[tail] * sizes[head]).sum()))
    cell[rng.random(len(cell)) < 0.1] = FORBIDDEN
    cost = np.where(rng.random(start[-1]) < 0.2, FORBIDDEN, rng.integers(0, 2**30, start[-1]))
    cost[start[:-1]] = 0
    network = Trws(start, tail, head, cell, cost, TOP)
    wide, narrow = (SoftTrws(network, network.cost.astype(np.float64)) for _ in range(2))
    for softness in (2.0**28, 2.0**20):
        wide.sweep(3, softness)
        narrow.sweep(3, softness, lanes=8)
        assert (wide.belief == narrow.belief).all()
        assert (wide.reparametrised()[1] == narrow.reparametrised()[1]).all()
