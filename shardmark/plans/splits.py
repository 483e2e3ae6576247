"""A split that a user has: the stage of every operator by name, read, checked and verified."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any, TypeAlias

from harness.verify import verify
from instances import InputError
from instances.catalog import near_miss
from instances.files.jsonfile import read_json
from instances.models.model import Model
from leaderboard.text import count
from shardmark.outcomes import Cost
from shardmark.plans.targets import Task

#: The stage of every operator by its name, or the path of a JSON file with such an object.
Split: TypeAlias = "Mapping[str, int] | str | os.PathLike[str]"


def verified(split: Split, model: Model, task: Task, stages: int, tell: Callable[[str], None]) -> tuple[Any, Cost]:
    """A split as a solution of a pipeline of so many stages, and its cost; InputError for one that is infeasible."""
    where = os.fspath(split) if isinstance(split, str | os.PathLike) else "split"
    given = read_json(where) if isinstance(split, str | os.PathLike) else split
    names = [operator.name for operator in model.operators]
    solution = task.tidy(_stages_of(given, where, names, stages, tell))
    verdict = verify(task.instance, solution)
    if not verdict.feasible or verdict.cost is None:
        raise InputError(where, "", f"expected a feasible split: {_named('; '.join(verdict.violations), task)}")
    return solution, verdict.cost


def _named(violation: str, task: Task) -> str:
    """A cycle of stages with the nodes by name, which the verifier calls by their places."""
    cycle, through, edges = violation.partition("through the edges ")
    return cycle + through + re.sub(r"\d+", lambda place: repr(task.instance.node_names[int(place[0])]), edges)


def _stages_of(given: Any, where: str, names: Sequence[str], stages: int, tell: Callable[[str], None]) -> list[int]:
    """The stage of each operator in ``names``, from 0 on without gaps; InputError for anything but a stage for each.

    Other names are told and ignored: reading a model folds constants.
    """
    if not isinstance(given, Mapping):
        expected = """expected an object with the stage of every operator, such as {"conv1": 0}"""
        raise InputError(where, "", f"{expected}, found a {type(given).__name__}")
    missing = [name for name in names if name not in given]
    others = sorted(map(str, given.keys() - set(names)))
    if missing:
        lack = f"found none for {len(missing)} of {len(names)}, such as {missing[0]!r}"
        raise InputError(where, "", f"expected a stage for every operator, {lack}{near_miss(missing[0], others)}")
    for name in names:
        stage = given[name]
        if isinstance(stage, bool) or not isinstance(stage, Integral) or not 0 <= int(stage) < stages:
            raise InputError(where, repr(name), f"expected a stage from 0 to {stages - 1}, found {stage!r}")
    if others:
        tell(f"{where}: ignored {count(len(others), 'name')} of no operator of the model, such as {others[0]!r}")
    used = sorted({int(given[name]) for name in names})
    place = {stage: index for index, stage in enumerate(used)}
    return [place[int(given[name])] for name in names]
