"""Certificates of Lagrangian bounds: messages between pairs and strategies of the instance, prices of memory, cases."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop._kernels import FORBIDDEN
from shardmark.solvers.intraop.cfn.lagrangian import Dual
from shardmark.solvers.intraop.network.memory import Timeline
from shardmark.solvers.intraop.network.model import Contraction, Mask, Model, build, contract
from shardmark.solvers.intraop.network.ragged import offsets, within
from shardmark.solvers.intraop.network.reduced_problem import Problem

#: What rounding messages may cost, as a fraction of the bound: short numbers make small files.
ROUNDING = 1e-6
#: Greatest message that a certificate may have.
LARGEST = 1 << 59
#: Rounds go on while they leave less than this fraction of the values and cells.
WORTHWHILE = 0.95
#: Cut-off without a known solution.
NO_CUTOFF = 1 << 200
#: Last softness of messages in a case, as a fraction of the bound per variable.
HARD = 0.01
#: Most cases of a certificate.
MOST_CASES = 2000


def moved_costs(
    instance: Instance, timeline: Timeline, multipliers: dict[int, float], cutoff: int | None, until: float
) -> dict[str, Any]:
    """Return a proof of kind "costs-moved" of `shardmark.harness.verify.certificates.intraop`.

    ``multipliers``  price of a byte in every step of the timeline that has one; a good start
    ``cutoff``       cost of a known solution: what costs as much or more need not be bounded
    """
    writer = _Writer(instance, timeline, cutoff, until)
    model = build(instance, np.zeros(len(instance.node_cost), dtype=bool), tolerant=cutoff is None, known=cutoff)
    rounds, dual = writer.rounds(model, multipliers)
    proof = {"kind": "costs-moved", "cutoff": NO_CUTOFF if cutoff is None else cutoff}
    proof["rounds"] = [{}, *rounds]  # the first leaves out entries that cost as much as the cut-off
    if cutoff is not None and dual is not None:
        proof["cases"] = writer.cases(dual)
    return proof


class _Writer:
    """Writes the rounds and cases of a proof."""

    def __init__(self, instance: Instance, timeline: Timeline, cutoff: int | None, until: float) -> None:
        self.instance, self.timeline, self.cutoff, self.until = instance, timeline, cutoff, until
        edges = np.flatnonzero(np.diff(instance.scope_start) == 2)
        low, high = np.sort([instance.scope[instance.scope_start[edges] + at] for at in (0, 1)], axis=0)
        self.pairs = np.unique((low * instance.nodes + high)[low < high])
        # what rounded messages do not rule out must stay, so this rules out only what costs a little more
        self.above = 0 if cutoff is None else cutoff + max(2, int(2 * ROUNDING * cutoff))

    def rounds(
        self, model: Model, multipliers: dict[int, float], *, hard: float = 0.001
    ) -> tuple[list[dict[str, Any]], Dual | None]:
        """Return the rounds of a model, and its last bound; None if that reaches the cut-off."""
        written: list[dict[str, Any]] = []
        before = math.inf
        while True:
            problem = Problem(self.instance, self.timeline, model)
            # below the cut-off, sweeps would rule out what no round shows
            dual = Dual(problem, model.forbidden, multipliers)
            dual.climb(self.until, hard=hard)
            closed = self.cutoff is not None and (dual.closed or dual.bound << model.shift >= self.cutoff)
            written.append(self._round(dual, exact=closed))
            if closed:
                return written, None
            if self.cutoff is None or time.monotonic() > self.until or problem.allowed >= WORTHWHILE * before:
                return written, dual
            before, multipliers = problem.allowed, dual.multipliers
            fewer = without(model, *dual.messages.prune(dual.scaled_top(self._top(model))))
            if fewer is None:
                return written, None
            model = fewer

    def _top(self, model: Model) -> int:
        return min(model.forbidden, -(-self.above >> model.shift))

    def cases(self, dual: Dual) -> list[dict[str, Any]]:
        """Divide what a bound leaves into cases until each reaches the cut-off, or time is up."""
        written: list[dict[str, Any]] = []
        open_ = [(-1, dual)]
        while open_ and time.monotonic() < self.until and len(written) < MOST_CASES:
            of, dual = open_.pop()
            model = dual.problem.model
            if not (model.sizes > 1).any():
                continue  # a single choice is left, which does not fit, or rounding leaves the bound below its cost
            weights = dual.weights()
            greatest = np.maximum.reduceat(weights, model.start[:-1])
            variable = int(np.argmin(np.where(model.sizes > 1, greatest, math.inf)))
            rows = slice(model.start[variable], model.start[variable + 1])
            best = np.zeros(model.sizes[variable], dtype=bool)
            best[int(np.argmax(weights[rows]))] = True
            node = int(self.timeline.owner[model.member[model.member_start[rows.start]]])
            for chosen in (~best, best):
                values = np.ones(len(model.unary), dtype=bool)
                values[rows] = chosen
                strategies = self._strategies(model, node, np.flatnonzero(chosen) + rows.start)
                fewer = without(model, values, np.ones(len(model.cell), dtype=bool))
                rounds, inner = ([], None) if fewer is None else self.rounds(fewer, dual.multipliers, hard=HARD)
                written.append({"of": of, "node": node, "strategies": strategies, "rounds": rounds})
                if inner is not None:
                    open_.append((len(written) - 1, inner))
        return written

    def _strategies(self, model: Model, node: int, rows: Ints) -> list[int]:
        """Strategies of a node that some values stand for."""
        strategies: Ints = model.member[model.member_start[rows]] - self.instance.strategy_start[node]
        return strategies.tolist()

    def _round(self, dual: Dual, *, exact: bool) -> dict[str, Any]:
        """Return the messages and prices of a bound, which lose less than 1 if ``exact``."""
        model = dual.problem.model
        bits = dual.bits - dual.drop - model.shift  # a message of 1 is a cost of 2^-bits
        allowed = math.ldexp(0.5, min(bits, 900)) if exact else dual.messages.bound * ROUNDING
        coarse = max(0, math.floor(math.log2(max(1.0, allowed / max(1, 2 * len(model.tail))))))
        sent = dual.messages.state[1]
        messages = np.where(np.abs(sent) < FORBIDDEN, sent, 0) >> coarse << max(0, coarse - bits)
        scale = max(0, bits - coarse)
        fine = max(0, bits + dual.grain - scale)
        priced = {row.step: multiplier << (scale + fine - bits - dual.grain) for row, multiplier in dual.priced}
        if exact and (lacking := self._lacking(dual.problem)):
            step, lack = lacking
            priced = {step: (self.above << (scale + fine)) // lack + 1}
        pairs, spread_out = self._of_strategies(model, np.clip(messages, -LARGEST, LARGEST))
        return {
            "scale": scale,
            "price_scale": fine,
            "pairs": pairs,
            "messages": spread_out,
            "prices": [[int(self.timeline.time[step]), price] for step, price in sorted(priced.items()) if price],
        }

    def _lacking(self, problem: Problem) -> tuple[int, int] | None:
        """Step in which nothing fits, and the bytes that it lacks: at a high price, no cost is low."""
        model = problem.model
        usage = np.minimum.reduceat(self.timeline.usage[model.member[model.member_start[:-1]]], model.start[:-1])
        node = self.timeline.owner[model.member[model.member_start[model.start[:-1]]]]
        of_node = np.zeros(self.instance.nodes, dtype=np.int64)
        of_node[node] = usage
        over = self.timeline.profile(of_node) - self.timeline.limit
        step = int(np.argmax(over)) if len(over) else -1
        return (step, int(over[step])) if step >= 0 and over[step] > 0 else None

    def _of_strategies(self, model: Model, messages: Ints) -> tuple[list[int], list[int]]:
        """Return the numbers of the model's pairs, and their messages to all strategies, 0 to those left out."""
        strategy = model.member[model.member_start[:-1]]
        node = self.timeline.owner[strategy[model.start[:-1]]]
        keys = node[model.tail] * self.instance.nodes + node[model.head]
        pairs = np.minimum(np.searchsorted(self.pairs, keys), max(0, len(self.pairs) - 1))
        row = strategy - self.instance.strategy_start[node][np.repeat(np.arange(model.variables), model.sizes)]
        numbers, result = list[int](), list[int]()
        at = 0
        for pair, key, *ends in zip(*(x.tolist() for x in (pairs, keys, model.tail, model.head)), strict=True):
            parts = [messages[at : (at := at + int(model.sizes[end]))] for end in ends]
            if not len(self.pairs) or self.pairs[pair] != key:
                continue  # of an edge of three nodes or more, of which a certificate takes the least cost alone
            numbers.append(pair)
            for end, part in zip(ends, parts, strict=True):
                whole = np.zeros(self.instance.strategies[node[end]], dtype=np.int64)
                whole[row[model.start[end] : model.start[end + 1]]] = part
                result += whole.tolist()
        return numbers, result


def without(model: Model, values: Mask, cells: Mask) -> Model | None:
    """Return the model of masks of its values and cells; None if a variable has no value left."""
    sizes = np.add.reduceat(values, model.start[:-1], dtype=np.int64)
    if not sizes.all():
        return None
    fewer = dataclasses.replace(model, cell=np.where(cells, model.cell, model.forbidden))
    kept = within(model.sizes)[values]
    return contract(fewer, Contraction(sizes, np.arange(model.variables), offsets(sizes), kept))
