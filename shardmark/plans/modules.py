"""The modules of a model that a part of a plan holds, whole or cut."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from shardmark.instances.models.model import Model

Path = tuple[str, ...]  # levels of a module's path, outermost first


@dataclass(frozen=True)
class Held:
    """Modules of one part, as paths, in the order in which its operators run.

    ``modules``  the outermost modules with all their operators in this part, and those of its other operators; a module
                 that only encloses others of the list is omitted
    ``cut``      the innermost modules with operators both here and in other parts; without modules so large that they
                 hold all operators of some part, which every split must cut
    """

    modules: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()


def held_modules(model: Model, part_of: Sequence[int], parts: int) -> list[Held]:
    """What each part holds; ``part_of`` is the part of every operator. Operators without a module are left out."""
    named = [pair for pair in zip((x.module for x in model.operators), part_of, strict=True) if pair[0]]
    sizes = Counter(part for _, part in named)
    inside = defaultdict[Path, Counter[int]](Counter)  # for every module, its operators by part
    for module, part in named:
        for path in enclosing(module):
            inside[path][part] += 1
    held: list[dict[Path, None]] = [{} for _ in range(parts)]
    for module, part in named:
        held[part][next((path for path in enclosing(module) if len(inside[path]) == 1), module)] = None
    cut = [path for path, number in inside.items() if len(number) > 1 and all(number[p] < sizes[p] for p in number)]
    innermost = _innermost(cut)
    return [
        Held(tuple(map(joined, _innermost(modules))), tuple(joined(x) for x in innermost if part in inside[x]))
        for part, modules in enumerate(held)
    ]


def enclosing(module: Path) -> Iterator[Path]:
    """A module and all that enclose it, outermost first."""
    return (module[:depth] for depth in range(1, len(module) + 1))


def joined(path: Path) -> str:
    """The path of a module as PyTorch writes it.

    >>> joined(("model", "layers.2", "self_attn"))
    'model.layers.2.self_attn'
    """
    return ".".join(path)


def _innermost(modules: Iterable[Path]) -> list[Path]:
    """Modules without those that enclose others of them."""
    outer = {path for module in modules for path in enclosing(module) if path != module}
    return [module for module in modules if module not in outer]


def in_short(modules: Sequence[str]) -> str:
    """One or two modules, or the first and the last of more.

    >>> in_short(["embed", "layers.0", "layers.1", "layers.2.mlp"])
    'embed ... layers.2.mlp'
    """
    return ", ".join(modules) if len(modules) < 3 else f"{modules[0]} ... {modules[-1]}"
