"""Loops of a reshape, for all formats: the dimensions that it keeps."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

Shape = tuple[int, ...]


@dataclass
class Reshaped:
    """Loops of a reshape: kept dimensions keep their loops; if dimensions merge or split, the outermost one does.

    ``read``, ``written``  the loop over each dimension before and after; None if there is none
    ``loops``              trip counts by loop; ``whole`` are the loops that must not be split
    """

    read: list[str | None]
    written: list[str | None]
    loops: dict[str, int] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)


def reshaped(before: Shape, after: Shape) -> Reshaped:
    """The loops of a reshape between two shapes with equally many elements."""
    found = Reshaped([None] * len(before), [None] * len(after))
    for number, (left, right) in enumerate(groups(before, after)):
        lead = f"d{number}"
        found.loops[lead] = math.gcd(before[left[0]], after[right[0]])
        found.read[left[0]] = found.written[right[0]] = lead
        rest = math.prod(before[i] for i in left) // found.loops[lead]
        if rest > 1:
            found.loops[f"rest{number}"] = rest
            found.whole.add(f"rest{number}")
    return found


def groups(before: Shape, after: Shape) -> list[tuple[list[int], list[int]]]:
    """The smallest groups of dimensions before and after a reshape with equal total size, without those of size 1."""
    ahead = [i for i, size in enumerate(before) if size != 1][::-1]
    behind = [i for i, size in enumerate(after) if size != 1][::-1]
    if math.prod(before) == 0:
        return []
    found = []
    while ahead and behind:
        left, right = [ahead.pop()], [behind.pop()]
        a, b = before[left[0]], after[right[0]]
        while a != b:
            if a < b:
                left.append(ahead.pop())
                a *= before[left[-1]]
            else:
                right.append(behind.pop())
                b *= after[right[-1]]
        found.append((left, right))
    return found
