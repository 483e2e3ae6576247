"""Memory in use per relevant time step, and the contribution of each value of a model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from shardmark.instances.files.columns import Ints
from shardmark.instances.intraop import Instance
from shardmark.solvers.intraop.network.adjacency import Adjacency
from shardmark.solvers.intraop.network.model import Mask, Model
from shardmark.solvers.intraop.network.ragged import interval_sums, offsets, spread

#: Upper bound on sums of memory.
LARGEST_SUM = 2**62


@dataclass(frozen=True, eq=False)
class Timeline:
    """Equation (2) on the time steps with a maximal set of live nodes, not contained in that of a neighbouring step.

    ``begin``, ``end``    shape (n,): node v is live in the steps [begin[v], end[v]), renumbered
    ``owner``, ``usage``  shape (strategies,): node of every strategy, and its memory, 0 if the node is never live
    ``steps``, ``limit``  number of steps, and the memory limit of each
    ``time``              shape (steps,): the step of the instance that each one stands for

    If sums could overflow 64 bits, all memory is scaled, with usage rounded up and the limit rounded down (``exact`` is
    False): an assignment that fits then also fits the original limit.
    """

    begin: Ints
    end: Ints
    owner: Ints
    usage: Ints
    steps: int
    limit: int
    exact: bool
    time: Ints

    @classmethod
    def of(cls, instance: Instance) -> Timeline:
        """The timeline of an instance; without a memory limit it has no steps, and no node is live."""
        limit = instance.usage_limit or 0
        live = (instance.end > instance.begin) & (instance.usage_limit is not None)
        ends = np.unique(instance.end[live])
        first = np.searchsorted(ends, instance.begin, side="right")
        last = np.searchsorted(ends, instance.end, side="right")
        begins = np.unique(first[live])  # intervals between two ends in which something begins
        owner = np.repeat(np.arange(instance.nodes), instance.strategies)
        most = max(limit + 1, LARGEST_SUM // max(1, instance.nodes) - 1)  # larger usages are equally infeasible
        usage = np.minimum(np.where(live[owner], instance.usage, 0), min(most, 2**63 - 1))
        most = int(usage.max(initial=0))
        bits = max(0, (most * instance.nodes).bit_length() - LARGEST_SUM.bit_length() + 1)
        return cls(
            begin=np.where(live, np.searchsorted(begins, first), 0),
            end=np.where(live, np.searchsorted(begins, last), 0),
            owner=owner,
            usage=-(-usage >> bits),
            steps=len(begins),
            limit=limit >> bits,
            exact=bits == 0,
            time=ends[begins] - 1,
        )

    def profile(self, usage_of_node: Ints) -> Ints:
        """Memory in use in every step, shape (steps,), for the memory of every node, shape (n,)."""
        return interval_sums(usage_of_node, self.begin, self.end, self.steps)

    def peak_of_node(self, of_step: Ints) -> Ints:
        """Largest entry of ``of_step``, shape (steps,), over the steps of each node, shape (n,); 0 if never live."""
        return peaks(of_step, self.begin, self.end)

    def least(self) -> Ints:
        """Least memory of every node over its strategies, shape (n,)."""
        smallest = np.full(len(self.begin), np.iinfo(np.int64).max)
        np.minimum.at(smallest, self.owner, self.usage)
        return smallest

    def most(self) -> Ints:
        """Greatest memory of every node over its strategies, shape (n,)."""
        largest = np.zeros(len(self.begin), dtype=np.int64)
        np.maximum.at(largest, self.owner, self.usage)
        return largest

    def never_fits(self) -> Mask:
        """Mask, shape (strategies,), of those that overload a step even if all other nodes use their least memory.

        All False if the least memory of all nodes already overloads a step, or if the timeline is not exact.
        """
        least = self.least()
        base = self.profile(least)
        if not self.exact or (base > self.limit).any():
            return np.zeros(len(self.usage), dtype=bool)
        room = self.limit - self.peak_of_node(base)
        return self.usage - least[self.owner] > room[self.owner]


def peaks(of_step: Ints, begin: Ints, end: Ints) -> Ints:
    """Largest entry of ``of_step``, shape (steps,), in each interval [begin, end), shape (n,); 0 if it is empty."""
    length = end - begin
    peak = np.zeros(len(length), dtype=of_step.dtype)
    span, largest = 1, of_step  # largest[t] is the maximum of `span` steps from t on
    while span <= len(of_step):
        some = np.flatnonzero((length >= span) & (length < 2 * span))
        peak[some] = np.maximum(largest[begin[some]], largest[end[some] - span])
        largest = np.maximum(largest[:-span], largest[span:])
        span *= 2
    return peak


class Footprint:
    """Contribution of every value of every variable to the memory profile.

    Only nodes whose memory depends on the value are listed: variable i has ``nodes[i]`` of them from ``start[i]`` on,
    live in the steps [begin, end). Under value k, the j-th of them uses ``usage[usage_start[i] + k * nodes[i] + j]``.
    """

    def __init__(self, instance: Instance, timeline: Timeline, model: Model) -> None:
        self.instance, self.timeline, self.model = instance, timeline, model
        members = np.diff(model.member_start)[model.start[:-1]]
        usage = timeline.usage[model.member]
        column = spread(np.repeat(offsets(members)[:-1], model.sizes), np.repeat(members, model.sizes))  # its node
        smallest = np.full(int(members.sum()), np.iinfo(np.int64).max)
        np.minimum.at(smallest, column, usage)
        varies = np.zeros(len(smallest), dtype=bool)
        varies[column[usage > smallest[column]]] = True
        node = timeline.owner[model.member[spread(model.member_start[model.start[:-1]], members)]][varies]
        self.variable = np.repeat(np.arange(model.variables), members)[varies]
        self.nodes = np.bincount(self.variable, minlength=model.variables)
        self.start = offsets(self.nodes)
        self.begin, self.end = timeline.begin[node], timeline.end[node]
        self.usage = usage[varies[column]]
        self.usage_start = offsets(self.nodes * model.sizes)

    @cached_property
    def adjacency(self) -> Adjacency:
        """The pairs and wide tables at every variable of the clipped model."""
        return Adjacency(self.clipped)

    @cached_property
    def clipped(self) -> Model:
        """The model for searches; see `Model.clipped`."""
        return self.model.clipped()

    def of(self, variable: int, value: int) -> Ints:
        """Memory of the variable's nodes under a value, shape (nodes[variable],)."""
        count = int(self.nodes[variable])
        first = int(self.usage_start[variable]) + value * count
        return self.usage[first : first + count]

    def profile(self, value: Ints) -> Ints:
        """Memory in use in every step, shape (steps,), for a value of every variable, shape (v,)."""
        strategy = self.model.lift(self.instance, value)
        return self.timeline.profile(self.timeline.usage[self.instance.strategy_start[:-1] + strategy])
