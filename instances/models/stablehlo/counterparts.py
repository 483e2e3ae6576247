"""Finds for an operator of the backward pass the one of the forward pass that it computes the gradient of, or repeats.

Both have the scope and the line of the program in common, or, where JAX writes another line, the scope and the kind, or
the round of a loop. Layers that a loop in Python calls share all of these, so the data tells them apart: of the
operators at such a place it is the one that uses most of the tensors that the later one reads, where a rematerialised
tensor counts as the one it repeats. Of several, it is the last one on the way to the operator whose gradient the later
one reads, since gradients flow backwards. What has no such place belongs where the gradient that it reads does, and
what reads none, such as a mask that is computed again, where its result is used.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any

from shardmark.instances.models.model import Model
from shardmark.instances.models.stablehlo import scopes

_COMMON = 16  # uses of a tensor at a place; one with more, such as a mask, tells nothing
_STEPS = 1000  # operators that a search visits on the way from a gradient to the inputs


def counterparts(
    model: Model, keys: Sequence[tuple[str, Any]], marked: Sequence[bool], late: Sequence[bool]
) -> Mapping[int, int]:
    """For marked operators, the index of their counterpart, if something tells it.

    ``keys`` has the name of every operator's location, and the line of the program. ``marked`` operators are of the
    backward pass, ``late`` ones need their results or are marked themselves.
    """
    places = _Places(model, keys, late)
    found = dict[int, int]()
    repeated = dict[int, int]()  # tensors that are computed again to those of the forward pass
    for index, operator in enumerate(model.operators):
        if not marked[index]:
            continue
        name = keys[index][0]
        own = [repeated.get(access.tensor, access.tensor) for access in operator.reads]
        likely = places.likely(own, operator.kind, *keys[index])
        producers = (model.tensors[access.tensor].producer for access in operator.reads)
        sources = [source for source in producers if source in found]
        again = [found[source] for source in sources if scopes.is_recomputed(keys[source][0])]
        choice: int | None
        if len(likely) == 1:
            (choice,) = likely
        elif again:
            choice = max(again)
        else:
            choice = _last(model, min((found[source] for source in sources), default=None), likely)
        if choice is None:
            continue
        found[index] = choice
        if scopes.is_recomputed(name) and model.operators[choice].kind == operator.kind:
            pairs = zip(operator.writes, model.operators[choice].writes, strict=False)
            repeated |= {new.tensor: old.tensor for new, old in pairs}
    readers = model.readers()
    for index in reversed(range(len(model.operators))):
        if marked[index] and index not in found:
            users = (user for access in model.operators[index].writes for user in readers[access.tensor])
            user = next((user for user in users if user in found), None)
            if user is not None:
                found[index] = found[user]
    return found


class _Places:
    """The operators of the forward pass by their places, and there by the tensors that they use."""

    def __init__(self, model: Model, keys: Sequence[tuple[str, Any]], late: Sequence[bool]) -> None:
        members = defaultdict[Any, set[int]](set)
        self._users = defaultdict[Any, list[int]](list)
        for index, operator in enumerate(model.operators):
            if late[index]:
                continue
            tensors = [access.tensor for access in (*operator.reads, *operator.writes)]
            for place in _places(*keys[index], operator.kind):
                members[place].add(index)
                for tensor in tensors:
                    self._users[place, tensor].append(index)
        self._members = dict(members)

    def likely(self, tensors: Collection[int], kind: str, name: str, lines: Any) -> Collection[int]:
        """The operators at a place that use most of the tensors, else all of them; but only one of a scope and kind."""
        place = next((place for place in _places(name, lines, kind) if place in self._members), None)
        uses = Counter[int]()
        for tensor, wanted in Counter(tensors).items():
            users = self._users.get((place, tensor), ())
            if len(users) <= _COMMON:
                uses.update({user: min(times, wanted) for user, times in Counter(users).items()})
        most = max(uses.values(), default=0)
        found = {user for user, count in uses.items() if count == most}
        if place is None or (place[0] == "kind" and len(found) != 1):
            return set()
        return found or self._members[place]


def _places(name: str, lines: Any, kind: str) -> Iterator[Any]:
    """Where an operator is, from the narrowest place to the widest."""
    scope = scopes.scope(name)
    yield "line", scope, lines
    yield "kind", scope, kind
    if any(map(str.isdecimal, scope)):
        yield "round", scope


def _last(model: Model, home: int | None, among: Collection[int]) -> int | None:
    """The last of the operators that ``home`` depends on, or is; ``home`` if there is none nearby."""
    if home is None:
        return None
    ahead, seen = [-home], {home}
    for _ in range(_STEPS if among else 0):
        if not ahead:
            break
        operator = -heappop(ahead)
        if operator in among:
            return operator
        for access in model.operators[operator].reads:
            source = model.tensors[access.tensor].producer
            if source is not None and source not in seen:
                seen.add(source)
                heappush(ahead, -source)
    return home
