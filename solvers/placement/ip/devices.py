"""The devices of one kind that an integer program needs, and how placements that differ in names only become one."""

from __future__ import annotations

from collections.abc import Sequence


class DeviceKind:
    """Devices in clusters of equal size, but for the last one; to use any others is no better than to use these.

    Members of a cluster are alike, and so are clusters of equal size. So in some order of the items members can be
    sorted by the first item that they get, and such clusters by the first one of their first member.

    ``number``    the instance's number of each
    ``cluster``   of each
    ``previous``  of each the one whose first item comes before all of its items, None if nothing is known of them
    ``depth``     of each, of how many that is so one after another
    """

    def __init__(self, first: int, count: int, items: int, cluster: int | None = None) -> None:
        """Of ``count`` devices from a number on, for so many items; without clusters all are one."""
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
        """Which of these stand for the instance's devices, sorted by the first item of each."""
        clusters: dict[int, list[int]] = {}
        for d in used:
            clusters.setdefault((d - self._first) // self._size, []).append(d)
        full = [q for q in clusters if q < self._full or not self._has_rest]
        new = {q: rank for rank, q in enumerate(full)}
        return {
            d: self._start[new.get(q, -1)] + rank for q, members in clusters.items() for rank, d in enumerate(members)
        }
