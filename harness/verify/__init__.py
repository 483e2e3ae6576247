"""Verdicts on solutions, from the definitions, in NumPy; imports nothing from solvers.

Each track has one module with ``verify(instance, solution) -> Verdict``. If solutions split the nodes, it can also have
``parts(instance, solution) -> Parts | None``; if they are schedules, ``times(instance, solution) -> Times | None``; if
they choose a strategy per node, ``choices(instance, solution) -> Choices | None``; if they can be placements for
latency, ``subgraphs(instance, solution) -> Subgraphs | None``; if they are plans of stages with replicas,
``stages(instance, solution) -> Stages | None``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from shardmark.instances.files.columns import Ints, describe
from shardmark.instances.files.jsonfile import plain_json

#: Limit on the bytes of a solution as JSON: a constant and a number per node.
LONGEST, LONGEST_PER_NODE = 1 << 20, 256
MOST_NAMED = 10  # groups named in a sentence, and sentences of one kind


@dataclass(frozen=True)
class Verdict:
    """The verdict on a solution: feasible or not, and its cost.

    ``cost`` is exact (int) for ``intraop`` and a float for the other tracks; None if a solution is so malformed that it
    has no cost. ``violations`` holds a sentence with place and amount for each broken rule, ``facts`` other facts by
    name: `placement` tells whether the quotient graph is acyclic.
    """

    feasible: bool
    cost: int | float | None
    violations: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Parts:
    """A split of the nodes: the part of each node, 0, 1, ...; the name of each part, and whether it is on CPUs.

    ``loads``       the load of each part, in time per sample, if parts have one
    ``times``       what the load of each part consists of: sequences of times by kind; those of a sequence follow one
                    another, the sequences run at the same time, and the longest is the load. Kinds: "in" and "out"
                    for receiving and sending tensors, "work" for running nodes, "overflow" for streaming what
                    exceeds the memory, "sync" for synchronising the parameters of replicas
    ``transfers``   the tensors that go from one part to another
    ``filled``      the share of its memory that each part uses; None without a limit
    ``passes``      names of the passes that ``times`` are of, one after another, if the largest loads of several are
                    summed; a load is then the sum of those of the passes
    """

    of: Sequence[int]
    names: Sequence[str]
    on_cpus: Sequence[bool]
    loads: Sequence[float] = ()
    times: Sequence[Sequence[Mapping[str, float]]] = ()
    transfers: Sequence[Transfer] = ()
    filled: Sequence[float | None] = ()
    passes: Sequence[str] = ()


@dataclass(frozen=True)
class Transfer:
    """Tensors that go from one part to another, each counted once; and the time that they take in all."""

    source: int
    target: int
    tensors: int
    time: float


@dataclass(frozen=True)
class Choices:
    """The strategies of a solution: ``row`` of each node's costs and usages, ``cell`` of each edge's table."""

    row: Ints
    cell: Ints


@dataclass(frozen=True)
class Times:
    """The times of a schedule, in the units of its instance.

    ``device``, ``start`` and ``finish`` of each vertex; ``arrival`` of the tensor of each edge; ``begun`` has the
    vertices in the order in which they began.
    """

    device: Sequence[int]
    start: Sequence[float]
    finish: Sequence[float]
    arrival: Sequence[float]
    begun: Sequence[int]


@dataclass(frozen=True)
class Subgraphs:
    """When the subgraphs of a placement for latency run: those of accelerators, and single nodes on CPUs.

    ``of``        the subgraph of each node: 0, 1, ...
    ``names``, ``devices``, ``start`` and ``finish``   of each subgraph; all CPUs are one device, which runs any number
                  of nodes at the same time
    ``waits``     pairs of subgraphs of which the second starts after the first has finished
    """

    of: Sequence[int]
    names: Sequence[str]
    devices: Sequence[str]
    start: Sequence[float]
    finish: Sequence[float]
    waits: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Stages:
    """The stages of a plan, in the order of the pipeline, a number each per stage.

    ``data``, ``tensor``   replicas, and devices of a replica
    ``in_flight``     microbatches in flight on a replica
    ``microbatch``    seconds of one microbatch, forward and backward, on a replica
    ``sync``          seconds in which the replicas exchange gradients, once per batch
    ``held``          bytes per device by what they are: "fixed", "shared" (the device's share) and "activations"
    """

    data: Sequence[int]
    tensor: Sequence[int]
    in_flight: Sequence[int]
    microbatch: Sequence[float]
    sync: Sequence[float]
    held: Sequence[Mapping[str, float]]


def longest_solution(instance: Any) -> int:
    """Return the largest number of bytes of a solution as JSON."""
    return LONGEST + LONGEST_PER_NODE * int(instance.nodes)


def malformed(*reasons: str) -> Verdict:
    """Return the verdict on a value that is not a solution."""
    return Verdict(False, None, reasons)


def misplaced(values: Any, choices: Sequence[int], meaning: str, place: str = "solution", each: str = "node") -> str:
    """Say why ``values`` is not a list with an int from 0 to ``choices[i] - 1`` at every place i; empty if it is."""
    if not isinstance(values, list):
        return f"{place}: expected a list of {len(choices)} integers, found {describe(values)}"
    if len(values) != len(choices):
        return f"{place}: expected {len(choices)} elements, one per {each}, found {len(values)}"
    for i, (value, count) in enumerate(zip(values, choices, strict=True)):
        if type(value) is not int or not 0 <= value < count:  # a bool is no index, nor is 1.0
            return f"{place}[{i}]: expected {meaning} from 0 to {count - 1}, found {describe(value)}"
    return ""


def verify(instance: Any, solution: Any) -> Verdict:
    """Judge a solution (plain JSON) of any track against its instance."""
    return _module(instance.track).verify(instance, solution)


def verify_reported(instance: Any, solution: Any) -> Verdict:
    """Judge a solution as a solver reports it, which may hold NumPy arrays; InputError if it is not plain JSON."""
    return verify(instance, plain_json(solution, "solution"))


def has_parts(track: str) -> bool:
    """Return whether solutions of a track have parts to show."""
    return hasattr(_module(track), "parts")


def parts(instance: Any, solution: Any) -> Parts | None:
    """Return the parts of a solution, for a track that `has_parts`; None if it is malformed."""
    return _module(instance.track).parts(instance, solution)


def has_times(track: str) -> bool:
    """Return whether solutions of a track are schedules."""
    return hasattr(_module(track), "times")


def times(instance: Any, solution: Any) -> Times | None:
    """Return the times of a solution, for a track that `has_times`; None if it breaks a rule."""
    return _module(instance.track).times(instance, solution)


def subgraphs(instance: Any, solution: Any) -> Subgraphs | None:
    """Return when the subgraphs of a placement for latency run; None for other objectives, and without a schedule."""
    found = getattr(_module(instance.track), "subgraphs", None)
    return None if found is None else found(instance, solution)


def stages(instance: Any, solution: Any) -> Stages | None:
    """Return the stages of a plan; None if it is malformed, and for tracks whose stages have no replicas."""
    found = getattr(_module(instance.track), "stages", None)
    return None if found is None else found(instance, solution)


def has_choices(track: str) -> bool:
    """Return whether solutions of a track choose a strategy per node."""
    return hasattr(_module(track), "choices")


def choices(instance: Any, solution: Any) -> Choices | None:
    """Return the strategies of a solution, for a track that `has_choices`; None if it is malformed."""
    return _module(instance.track).choices(instance, solution)


def _module(track: str) -> ModuleType:
    return importlib.import_module(f"shardmark.harness.verify.{track}")
