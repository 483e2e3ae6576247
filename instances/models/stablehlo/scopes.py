"""Names that JAX gives to operations: the scope, the primitive, the pass, the layer.

JAX writes ``jit(step)/transpose(jvp(layer3/mlp))/dot_general`` as the location of an operation, and the line of the
program after it. ``transpose`` marks the backward pass; the scope of the forward pass is the same without the marks.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise

_MARKS = re.compile(r"(?:transpose|jvp|vmap|remat2?|checkpoint)\((.*)\)")
_BACKWARD = re.compile(r"(?:(?:vmap|jvp)\()*transpose\(")
_RECOMPUTED = {"checkpoint", "rematted_computation", "remat", "remat2"}
_OWN = re.compile(r"while|body|cond|branch_[0-9]+_fun|(?:closed|core|custom_jvp|custom_vjp)_call|.*[^\w.-].*")
_ROUND = re.compile(r"while\.[0-9]+")
_NUMBERED = re.compile(r"(.*?[^0-9]|)[0-9]+")


@cache
def parts(name: str) -> tuple[str, ...]:
    """The components of a location between slashes that no parenthesis encloses, without the outer ``jit(...)``."""
    found, depth = [""], 0
    for character in name.rstrip(":"):
        depth += (character == "(") - (character == ")")
        if character == "/" and depth <= 0:
            found.append("")
        else:
            found[-1] += character
    outer = int(len(found) > 1 and found[0].startswith("jit("))
    outer += len(found) > 2 and found[1] == "jit(main)"
    return tuple(found[outer:])


def is_backward(name: str) -> bool:
    """True if a component is marked as transposed."""
    return any(_BACKWARD.match(component) for component in parts(name))


def is_recomputed(name: str) -> bool:
    """True if the operation computes a part of the forward pass again."""
    return "rematted_computation" in parts(name)


@cache
def scope(name: str) -> tuple[str, ...]:
    """The scope of an operation without the marks of transformations, and without the primitive at its end.

    JAX names the backward pass of a rematerialised scope twice, ``transpose(jvp(layer3))/jvp(layer3)/checkpoint``.
    """
    found: list[str] = []
    before = held = ""
    for component in parts(name)[:-1]:
        plain = component
        while match := _MARKS.fullmatch(plain):
            plain = match[1]
        if not (_BACKWARD.match(before) and component != plain == held):
            found += [inner for inner in parts(plain) if inner and inner not in _RECOMPUTED]
        before, held = component, plain
    return tuple(found)


@cache
def module(name: str) -> tuple[str, ...]:
    """The levels of the module path of an operation: its scope without JAX's own calls and einsums.

    Of a loop there is a level per round: ``while.3``.
    """
    levels = scope(name)
    rounds = [f"{outer}.{level}" if level.isdecimal() else level for outer, level in pairwise(("", *levels))]
    return tuple(level for level in rounds if _ROUND.fullmatch(level) or not _OWN.fullmatch(level))


@cache
def layer(name: str) -> tuple[int, str]:
    """The number at the end of the outermost numbered scope, and the scope with ``*`` for it; -1 if there is none."""
    found = list(scope(name))
    for place, component in enumerate(found):
        match = _NUMBERED.fullmatch(component)
        if match:
            number = component[len(match[1]) :]
            found[place] = f"{match[1]}*"
            return int(number[-9:]), "/".join(found)
    return -1, "/".join(found)
