"""Reads and checks a user's split: the stage of every operator by name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from shardmark.instances import InputError
from shardmark.instances.catalog import near_miss
from shardmark.instances.files.columns import describe
from shardmark.instances.files.jsonfile import read_json, shortened
from shardmark.instances.graph import find_cycle
from shardmark.instances.models.model import Model
from shardmark.leaderboard.text import count
from shardmark.plans import saving
from shardmark.plans.joining import Joined

#: The stage of every operator by its name, or the path of a JSON file with such an object or with a whole plan.
Split: TypeAlias = "Mapping[str, int] | str | os.PathLike[str]"


def stages_of(
    split: Split, model: Model, stages: int, tell: Callable[[str], None], joined: Sequence[Joined] = ()
) -> tuple[Joined, list[int]]:
    """The operators that a split keeps together and the stage of each; InputError for an infeasible split.

    The operators are those of the first of ``joined`` that the split respects: all members of a group in one stage, and
    no cycle among the stages. If it respects none, they are those of the model. Stages are numbered from 0 without
    gaps. A feasible split gives every operator one of ``stages`` stages, which form no cycle. Other names are ignored
    with a note, as reading a model folds constants.
    """
    names = [operator.name for operator in model.operators]
    where, found = (os.fspath(split), read_json(split)) if isinstance(split, str | os.PathLike) else ("split", split)
    given = _numbers(_of_plan(found, where), where, names, stages, tell)
    used = sorted(set(given))
    place = {stage: index for index, stage in enumerate(used)}
    numbered = [place[stage] for stage in given]
    for way in joined:
        held = [{numbered[index] for index in group} for group in way.groups]
        of_group = [min(stages) for stages in held]
        if max(map(len, held)) == 1 and not _cycle(way.model, of_group, len(used))[0]:
            return way, of_group
    cycle, crossing = _cycle(model, numbered, len(used))
    if cycle:
        path = " -> ".join(str(used[stage]) for stage in cycle)
        edges = ", ".join(f"{names[u]!r} -> {names[v]!r}" for u, v in map(crossing.__getitem__, pairwise(cycle)))
        raise InputError(where, "", f"expected no cycle among the stages, found {path} through the edges {edges}")
    return Joined.of(model, fused=False, passes=False), numbered


def _cycle(
    model: Model, stage: Sequence[int], stages: int
) -> tuple[Sequence[int] | None, Mapping[tuple[int, int], tuple[int, int]]]:
    """A cycle among stages, if there is one, and for every pair of them an edge from one to the other."""
    crossing = {(stage[u], stage[v]): (u, v) for u, v in model.edges() if stage[u] != stage[v]}
    return find_cycle(stages, *np.array(list(crossing), dtype=np.int64).reshape(-1, 2).T), crossing


def _of_plan(found: Any, where: str) -> Any:
    """The stage of every operator that a whole plan has; what has no format is returned as it is."""
    written = found.get("format") if isinstance(found, Mapping) else None
    if not isinstance(written, str):
        return found
    if written != saving.FORMAT:
        expected = f"expected {saving.FORMAT!r}, or an object with nothing but the stage of every operator"
        raise InputError(where, "format", f"{expected}, found {shortened(written)}")
    if found.get("track") != "pipeline":
        track = shortened(str(found.get("track")))
        raise InputError(where, "track", f"expected a plan over equal devices, 'pipeline', found {track}")
    return found.get("assignment")


def _numbers(given: Any, where: str, names: Sequence[str], stages: int, tell: Callable[[str], None]) -> list[int]:
    """The numbers that ``given`` has for ``names``; InputError for anything but a stage for each."""
    if not isinstance(given, Mapping):
        expected = """expected an object with the stage of every operator, such as {"conv1": 0}"""
        raise InputError(where, "", f"{expected}, found {describe(given)}")
    missing = [name for name in names if name not in given]
    others = sorted(map(str, given.keys() - set(names)))
    if missing:
        lack = f"found none for {len(missing)} of {len(names)}, such as {missing[0]!r}"
        raise InputError(where, "", f"expected a stage for every operator, {lack}{near_miss(missing[0], others)}")
    for name in names:
        stage = given[name]
        if isinstance(stage, bool) or not isinstance(stage, Integral) or not 0 <= int(stage) < stages:
            raise InputError(where, repr(name), f"expected a stage from 0 to {stages - 1}, found {describe(stage)}")
    if others:
        ignored = count(len(others), "name")
        tell(f"{where}: ignored {ignored} that no operator of the model has, such as {shortened(others[0])}")
    return [int(given[name]) for name in names]
