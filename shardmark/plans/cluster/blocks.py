"""Divides a forward pass into blocks, of which the stages of a layout consist: repeated modules, or cuts in the graph.

A *numbered* module is one of several whose paths differ in one number, such as ``model.layers.7``. Every outermost
numbered module is a block; where these are few, so are the numbered modules inside them. The operators between blocks
are blocks too, such as an embedding and a head. If the file has no such modules, or if data leave one for another and
come back, blocks end where few bytes cross.

Operators in front of numbered modules that several of these read from, such as those of a mask or of rotary angles, run
in every stage that needs them, if they hold little: they are *shared*, and belong to the first block for costs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from shardmark.instances.graph import Graph, find_cycle
from shardmark.instances.models.fuse import edges_between
from shardmark.instances.models.model import Model
from shardmark.instances.models.onnx_graph.names import Namer
from shardmark.instances.models.stablehlo.scopes import parts, scope
from shardmark.plans.cluster.submodels import ancestors
from shardmark.plans.modules import Path, enclosing, joined

#: Fewer numbered modules than this are divided further, if there are numbered modules in them.
FEW = 8
#: Blocks of a model without numbered modules, at most.
MOST_CUTS = 64
#: Share of a model's arithmetic and of its parameters that shared operators may have.
LITTLE = 0.01
_NUMBER = re.compile(r"^(.*?)([0-9]+)$")
#: A level of the path of a parameter, as JAX writes it.
_LEVEL = re.compile(r"\['([^']+)'\]|\[([0-9]+)\]|\.(\w+)")


@dataclass(frozen=True)
class Block:
    """Consecutive operators of a forward pass.

    ``name``       path of its module, or of its first and last one, or of parameters that it reads
    ``operators``  indices in the model, ascending
    ``tensors``    activations that enter it from earlier blocks
    """

    name: str
    operators: tuple[int, ...]
    tensors: tuple[int, ...]


def blocks_of(model: Model, *, at_modules: bool = False) -> list[Block]:
    """The blocks of a forward pass, in an order in which they can run; every operator is in exactly one.

    ``at_modules`` lets all blocks but the first begin where a module does, in the order of the file, apart from shared
    operators: so a PyTorch pipeline can have any of them as a stage.
    """
    outer = _numbered(model, 1)
    for numbered in [outer] if len(set(filter(None, outer))) >= FEW else [_numbered(model, 2), outer]:
        shared = _shared(model, numbered)
        groups = _in_order(model, _grouped(model, numbered, shared, at_modules=at_modules)) if any(numbered) else None
        if groups is not None and not (at_modules and _mixed(groups, shared)):
            break
    else:
        groups, shared = _cut(model), set()
    return _named(model, _at_modules(model, groups, shared) if at_modules else groups)


def _numbered(model: Model, depth: int) -> list[Path | None]:
    """For every operator, the numbered module around it, of several the outermost ``depth``; None if there is none."""
    families: dict[Path, set[Path]] = {}
    for path in {path for operator in model.operators for path in enclosing(operator.module)}:
        families.setdefault(_family(path), set()).add(path)
    found: list[Path | None] = []
    for operator in model.operators:
        levels = [path for path in enclosing(operator.module) if len(families[_family(path)]) > 1]
        found.append(levels[min(depth, len(levels)) - 1] if levels else None)
    return found


def _family(path: Path) -> Path:
    """A path with ``*`` for the number at its end; the path itself if it ends in none."""
    match = _NUMBER.fullmatch(path[-1])
    return (*path[:-1], f"{match[1]}*") if match else path


def _grouped(model: Model, numbered: Sequence[Path | None], shared: set[int], *, at_modules: bool) -> list[list[int]]:
    """Operators by numbered module; others by the last such module that they depend on.

    ``at_modules`` takes the last one that ends before them if that is a later one.
    """
    order = {path: number for number, path in enumerate(dict.fromkeys(filter(None, numbered)))}
    end = {path: index for index, path in enumerate(numbered) if path is not None}
    after = [-1] * len(model.operators)  # the last numbered module that leads to an operator
    ended = -1
    keys = list[tuple[int, bool]]()
    for index, operator in enumerate(model.operators):
        before = [model.tensors[access.tensor].producer for access in operator.reads]
        after[index] = max([ended, *(after[source] for source in before if source is not None)])
        path = numbered[index]
        if path is not None:
            after[index] = max(after[index], order[path])
            ended = max(ended, order[path]) if at_modules and end[path] == index else ended
        keys.append(
            (order[path], True) if path is not None else (-1, False) if index in shared else (after[index], False)
        )
    readers = model.readers()
    for index in reversed(range(len(keys))):  # what no numbered module needs, such as labels, waits for its reader
        users = [keys[user] for access in model.operators[index].writes for user in readers[access.tensor]]
        if keys[index] == (-1, False) and users and not any(user[1] for user in users):
            keys[index] = min(users)
    groups: dict[tuple[int, bool], list[int]] = {}
    for index, key in enumerate(keys):
        groups.setdefault(key, []).append(index)
    return [groups[key] for key in sorted(groups, key=lambda key: (key[0] + (not key[1]) * 0.5, key[1]))]


def _shared(model: Model, numbered: Sequence[Path | None]) -> set[int]:
    """Operators in front of all numbered modules that several read, with what leads to them, if they hold little."""
    depends = [path is not None for path in numbered]
    users: list[set[Path]] = [set() for _ in model.operators]
    for index, operator in enumerate(model.operators):
        sources = (model.tensors[access.tensor].producer for access in operator.reads)
        depends[index] |= any(depends[source] for source in sources if source is not None)
    for source, reader in model.edges():
        path = numbered[reader]
        if path is not None and not depends[source]:
            users[source].add(path)
    found = set(ancestors(model, (index for index, paths in enumerate(users) if len(paths) > 1)))
    weights = {tensor for index in found for tensor in model.parameters(index)}
    flops = sum(model.operators[index].flops for index in found)
    heavy = sum(model.tensors[tensor].bytes for tensor in weights) > LITTLE * model.parameter_bytes()
    heavy = heavy or flops > LITTLE * sum(operator.flops for operator in model.operators)
    return set() if heavy else found


def _mixed(groups: Sequence[list[int]], shared: set[int]) -> bool:
    """True if groups, in order, run operators in another order than the file, apart from shared ones."""
    order = [index for group in groups for index in group if index not in shared]
    return order != sorted(order)


def _at_modules(model: Model, groups: Sequence[list[int]], shared: set[int]) -> list[list[int]]:
    """Groups that begin where a module does; what is in front of the first module of a group joins the one before."""
    begun, begins = set[Path](), set[int]()
    for index, operator in enumerate(model.operators):
        levels = set(enclosing(operator.module))
        if not levels <= begun and index not in shared:
            begins.add(index)
        begun |= levels
    found: list[list[int]] = [[]]
    for group in groups:
        place = next((place for place, index in enumerate(group) if index in begins), len(group))
        found[-1] += group[:place]
        found += [group[place:]] if place < len(group) else []
    return [sorted(group) for group in found if group]


def _in_order(model: Model, groups: Sequence[list[int]]) -> list[list[int]] | None:
    """Groups in an order in which they can run; None if data leave one and come back."""
    tail, head = edges_between(model, groups)
    if find_cycle(len(groups), tail, head):
        return None
    return [groups[group] for group in Graph(len(groups), tail, head, model.name).topological_order.tolist()]


def _cut(model: Model) -> list[list[int]]:
    """Runs of operators between the places where fewest bytes cross, of about equal work."""
    last = [max(readers, default=-1) for readers in model.readers()]
    change = np.zeros(len(model.operators) + 1)
    for tensor, end in zip(model.tensors, last, strict=True):
        if tensor.producer is not None and end > tensor.producer:
            change[tensor.producer + 1] += tensor.bytes
            change[end + 1] -= tensor.bytes
    crossing = np.cumsum(change)[1:-1]  # behind every operator but the last
    work = np.cumsum([operator.flops + 1 for operator in model.operators])
    share = work[-1] / MOST_CUTS
    cuts, first = [], 0
    while first < len(crossing):  # the cheapest place in every share of the work
        end = int(np.searchsorted(work, (work[first - 1] if first else 0) + share, side="right"))
        place = first + int(np.argmin(crossing[first : max(end, first + 1)]))
        cuts.append(place + 1)
        first = max(end, place + 1)
    ends = [0, *cuts, len(model.operators)]
    runs = (list(range(a, b)) for a, b in pairwise(ends))
    return [run for run in runs if run]


def _named(model: Model, groups: Sequence[list[int]]) -> list[Block]:
    group_of = {index: number for number, group in enumerate(groups) for index in group}
    namer = Namer()
    found = []
    for number, group in enumerate(groups):
        reads = (access.tensor for index in group for access in model.operators[index].reads)
        entering = (t for t in reads if (p := model.tensors[t].producer) is not None and group_of[p] != number)
        name = namer.unique(_name(model, group))
        found.append(Block(name, tuple(group), tuple(dict.fromkeys(entering))))
    return found


def _name(model: Model, group: Sequence[int]) -> str:
    """The numbered module around a group; otherwise the first and the last module that read parameters.

    Without scopes around these, it is the first and the last parameter. A group without parameters has the names of its
    modules, or that of its first operator.
    """
    paths = [model.operators[index].module for index in group if model.operators[index].module]
    common = paths[0] if paths else ()
    while any(path[: len(common)] != common for path in paths):
        common = common[:-1]
    if common and _NUMBER.fullmatch(common[-1]):
        return joined(common)
    weights = {index: found for index in group if (found := _weights(model, index))}
    within = [model.operators[index].module for index in weights] or paths
    if within and all(within):
        outer = {path[:depth] for path in within for depth in range(len(path))}
        return _ends([joined(path) for path in within if path not in outer])
    named = [_path(name) for names in weights.values() for name in names if "." in name or "[" in name]
    name = model.operators[group[0]].name
    return _ends(named) if named else "/".join((*scope(name), parts(name)[-1]))


def _path(parameter: str) -> str:
    """The path of a parameter; JAX writes it with the name of the argument in front.

    >>> _path("params['layers'][0].scale")
    'layers.0.scale'
    """
    levels = ["".join(level) for level in _LEVEL.findall(parameter)] if "[" in parameter else []
    return ".".join(levels) or parameter


def _weights(model: Model, index: int) -> list[str]:
    """Names of the parameters that an operator reads, apart from single numbers, such as a counter of steps."""
    read = (model.tensors[access.tensor] for access in model.operators[index].reads)
    return [tensor.name for tensor in read if tensor.parameter and tensor.numbers > 1]


def _ends(names: Sequence[str]) -> str:
    first, last = names[0], names[-1]
    return first if first == last else f"{first} ... {last}"
