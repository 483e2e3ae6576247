"""Instances without one of the dimensions of a plan, and runs of methods on them: the paper's baselines."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmark.instances.errors import InputError
from shardmark.instances.files.columns import Ints
from shardmark.instances.hybrid import Instance
from shardmark.solvers.registry import Declined, Proof, Run

#: Columns of configurations that a restriction shortens.
COLUMNS = ("degree", "kind", "time", "parameters", "stashed", "fixed", "shared", "gathered")


def one_replica(instance: Instance) -> Instance:
    """The instance with one replica per stage."""
    return _OneReplica(**{field.name: getattr(instance, field.name) for field in dataclasses.fields(instance)})


def one_device(instance: Instance) -> Instance:
    """The instance with one device per replica; InputError if a node has no such configuration."""
    return _only(instance, instance.degree == 1)


def first_kinds(instance: Instance) -> Instance:
    """The instance with the first configuration of each degree, which recomputes nothing."""
    return _only(instance, np.append(True, (np.diff(instance.node) != 0) | (np.diff(instance.degree) != 0)))


def solve(
    method: Callable[[Instance, Run], None], restrict: Callable[[Instance], Instance], run: Run, of: Instance
) -> None:
    """Run a method on a restricted instance; its bounds, which need not hold for the whole one, are dropped."""
    try:
        instance = restrict(of)
    except InputError as error:
        raise Declined(f"no such plan exists: {error.place}: {error.expected}") from None
    try:
        method(instance, _Plans(run))
    except Declined as error:
        raise Declined(f"with this restriction, {error}") from None


class _OneReplica(Instance):
    @cached_property
    def replicas(self) -> Ints:
        return np.ones(1, dtype=np.int64)


class _Plans(Run):
    """A run that hands on plans, but no bounds."""

    def __init__(self, run: Run) -> None:
        super().__init__(seed=run.seed, cores=run.cores, memory=run.memory, timeout=run.remaining())
        self._run = run

    def report(self, solution: Any, cost: float | None = None) -> None:
        self._run.report(solution, cost)

    def bound(self, value: float, certificate: Proof | None = None) -> None:
        pass


def _only(instance: Instance, keep: NDArray[np.bool_]) -> Instance:
    counts = np.bincount(instance.node[keep], minlength=instance.nodes)
    lengths = np.diff(instance.sync_start)
    return dataclasses.replace(
        instance,
        **{name: getattr(instance, name)[keep] for name in COLUMNS},
        start=np.concatenate([[0], np.cumsum(counts)]),
        sync=instance.sync[np.repeat(keep, lengths)],
        sync_start=np.concatenate([[0], np.cumsum(lengths[keep])]),
    )
