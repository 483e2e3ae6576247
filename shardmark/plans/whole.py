"""Keeps modules whole: each becomes one operator before the search, and the answer is expanded again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import pairwise

import numpy as np

from shardmark.harness.results import claims
from shardmark.instances import InputError
from shardmark.instances.catalog import near_miss
from shardmark.instances.files.jsonfile import shortened
from shardmark.instances.graph import find_cycle
from shardmark.instances.models.fuse import join
from shardmark.instances.models.model import Model
from shardmark.plans.modules import enclosing, joined
from shardmark.plans.solving import words

MOST_EDGES = 8  # of a cycle that are shown


@dataclass(frozen=True)
class Contraction:
    """A model whose modules are operators.

    ``modules``  paths of the modules that are kept whole
    ``groups``   for every operator of ``model``, those of the original that it consists of
    """

    modules: Sequence[str]
    groups: Sequence[Sequence[int]] = field(repr=False)
    model: Model = field(repr=False)

    def expand(self, part_of: Sequence[int]) -> list[int]:
        """The part of every operator of the original, given those of the operators of ``model``, which come first."""
        found = [0] * sum(map(len, self.groups))
        for group, part in zip(self.groups, part_of, strict=False):
            for index in group:
                found[index] = part
        return found


@dataclass(frozen=True)
class Price:
    """What keeping modules whole costs: the same search without it.

    ``modules``      paths of the modules that are kept whole
    ``cost``         of the best split found without it, in microseconds, at most that of the plan
    ``lower_bound``  for the cost of any split, in microseconds
    """

    modules: Sequence[str]
    cost: float
    lower_bound: float

    def in_words(self, cost: float, among: str = "") -> str:
        """What keeping modules whole costs a plan of this cost, in microseconds; ``among`` says of which splits."""
        least, most = claims.gap(cost, self.cost), claims.gap(cost, self.lower_bound)
        if not least:
            found = "no better split was found without this"
        else:
            found = f"{100 * least:.2g} % above the best split found without this, {self.cost:,.6g} µs"
        return found if most == least else f"{found}; {words(most)}{among}"


def patterns_of(whole: object) -> list[str]:
    """The patterns that a user gives, one or several; InputError for anything else."""
    given = [whole] if isinstance(whole, str) else whole
    if not isinstance(given, list | tuple) or not all(isinstance(pattern, str) for pattern in given):
        raise InputError("plan", "whole", f"expected patterns such as '*.layers.*', found {whole!r}")
    return list(given)


def contract(model: Model, patterns: Sequence[str]) -> Contraction:
    """Join the operators of every module that matches a pattern; of nested ones, those of the outermost.

    In a pattern, ``*`` stands for any text, also with dots, and ``*.`` at its beginning for none as well. Operators
    of the backward pass that share a stage with none of the forward pass are modules of their own.

    Raises InputError for a pattern that matches nothing, and for modules that cannot be whole, as data leave one for
    other operators and come back.
    """
    path_of = _matches(model, patterns)
    groups = dict[object, list[int]]()
    for index, operator in enumerate(model.operators):
        path = path_of[index]
        groups.setdefault((path, operator.backward) if path else index, []).append(index)
    _require_no_cycle(model, list(groups.values()), path_of)
    contracted, members = join(model, list(groups.values()))
    for index, group in enumerate(members):
        path, operator = path_of[group[0]], contracted.operators[index]
        if path:
            name = f"{path} (backward)" if operator.backward else path
            contracted.operators[index] = replace(operator, name=name)
    return Contraction(tuple(dict.fromkeys(filter(None, path_of))), members, contracted)


def _matches(model: Model, patterns: Sequence[str]) -> list[str]:
    """For every operator, the path of the outermost module around it that matches a pattern; "" if none does."""

    @cache
    def matching(path: str) -> frozenset[str]:
        return frozenset(x for x in patterns if fnmatchcase(path, x) or fnmatchcase(f".{path}", x))

    @cache
    def outermost(module: tuple[str, ...]) -> str:
        return next((path for path in map(joined, enclosing(module)) if matching(path)), "")

    paths = dict.fromkeys(joined(path) for operator in model.operators for path in enclosing(operator.module))
    used = frozenset[str]().union(*map(matching, paths))
    for pattern in patterns:
        if pattern not in used:
            known = f"matches no module{near_miss(pattern, paths)}; the model has {_some(paths)}"
            raise InputError(
                "plan", "whole", f"expected a pattern of a module's path, found {shortened(pattern)}, which {known}"
            )
    return [outermost(operator.module) for operator in model.operators]


def _some(paths: Iterable[str]) -> str:
    listed = list(paths)
    if not listed:
        return "no names of modules in its file"
    return f"{', '.join(map(repr, listed[:4]))}{f' and {len(listed) - 4} more' if len(listed) > 4 else ''}"


def _require_no_cycle(model: Model, groups: Sequence[Sequence[int]], path_of: Sequence[str]) -> None:
    """InputError if groups depend on each other in a circle."""
    group_of = {index: number for number, group in enumerate(groups) for index in group}
    crossing = {(group_of[u], group_of[v]): (u, v) for u, v in model.edges() if group_of[u] != group_of[v]}
    cycle = find_cycle(len(groups), *np.array(list(crossing), dtype=np.int64).reshape(-1, 2).T)
    if cycle:
        steps = list(pairwise(cycle))
        edges = "; ".join(_of_edge(model, path_of, *crossing[step]) for step in steps[:MOST_EDGES])
        more = f"; and {len(steps) - MOST_EDGES} more" if len(steps) > MOST_EDGES else ""
        expected = "expected modules that data enter before they leave, found a cycle through"
        raise InputError("plan", "whole", f"{expected} {edges}{more}")


def _of_edge(model: Model, path_of: Sequence[str], *ends: int) -> str:
    """An edge between groups, in words."""

    def names() -> Iterator[str]:
        for index in ends:
            name = repr(model.operators[index].name)
            yield f"{name} in {path_of[index]}" if path_of[index] else name

    return " -> ".join(names())
