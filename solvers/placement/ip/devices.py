"""The devices of one kind that an integer program needs, ordered to break their symmetry."""

from __future__ import annotations

from collections.abc import Sequence


class DeviceKind:
    """Devices in clusters of equal size, except the last cluster; further devices would not help.

    Members of a cluster are interchangeable, and so are clusters of equal size. Given an order of the items, members
    can therefore be sorted by their first item, and equal clusters by the first item of their first member.

    ``number``    number of each device in the instance
    ``cluster``   cluster of each
    ``previous``  the device whose first item comes before all items of this one; None if there is none
    ``depth``     number of previous devices in a chain
    """

    def __init__(self, first: int, count: int, items: int, cluster: int | None = None) -> None:
        """Choose among ``count`` devices numbered from ``first`` on, for ``items`` items; None: all are one cluster."""
        self._first, self._size = first, cluster or max(1, count)
        self._full, rest = divmod(count, self._size)
        kept = [(q, min(self._size, items)) for q in range(min(self._full, items))]
        self._has_rest = rest > 0 and len(kept) < items
        kept += [(self._full, min(rest, items))] * self._has_rest
        self._start, self.number, self.cluster = list[int](), list[int](), list[int]()
        for q, members in kept:
            self._start.append(len(self.number))
            self.number += range(first + q * self._size, first + q * self._size + members)
            self.cluster += [q] * members
        self.previous = [self._previous(device) for device in range(len(self.number))]
        self.depth = list[int]()
        for before in self.previous:
            self.depth.append(0 if before is None else self.depth[before] + 1)

    def _previous(self, device: int) -> int | None:
        if device not in self._start:
            return device - 1
        q = self._start.index(device)
        return self._start[q - 1] if q and self.cluster[device] < self._full else None

    def among(self, used: Sequence[int]) -> dict[int, int]:
        """Map the used devices of the instance, given in the order of their first items, to indices here."""
        clusters: dict[int, list[int]] = {}
        for d in used:
            clusters.setdefault((d - self._first) // self._size, []).append(d)
        full = [q for q in clusters if q < self._full or not self._has_rest]
        new = {q: rank for rank, q in enumerate(full)}
        return {
            d: self._start[new.get(q, -1)] + rank for q, members in clusters.items() for rank, d in enumerate(members)
        }
