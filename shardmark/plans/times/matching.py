"""Which of a model's operators a file of measured times has a time for."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from shardmark.instances import InputError
from shardmark.instances.catalog import near_miss
from shardmark.instances.files.jsonfile import shortened
from shardmark.instances.models.model import Model
from shardmark.instances.models.stablehlo.scopes import scope
from shardmark.plans.times.kinds import Signature, has_bias, signature_of, signatures_of
from shardmark.plans.times.measured import Event, Measured, Row, Shapes
from shardmark.plans.times.table import shapes_read, shapes_text


@dataclass
class Matched:
    """Times of operators and modules of a model.

    ``operators``  seconds by the operator's index
    ``modules``    operators of modules that were measured as a whole, and the seconds of all of them
    """

    operators: dict[int, float] = field(default_factory=dict)
    modules: list[tuple[list[int], float]] = field(default_factory=list)


def match(measured: Measured, model: Model, source: str) -> Matched:
    """Find the operators of rows and events; InputError for a row of a table whose operators the model lacks."""
    finder = _Finder(model, source)
    if measured.rows:
        return finder.rows(measured.rows)
    return finder.events(measured.events, nested=measured.nested)


class _Finder:
    """Operators of a model by name, module and kind."""

    def __init__(self, model: Model, source: str) -> None:
        self.model, self.source = model, source
        self.readers = model.readers()
        self.by_name = {operator.name: index for index, operator in enumerate(model.operators)}
        self.by_module: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for index, operator in enumerate(model.operators):
            path = _path("/".join(operator.module or scope(operator.name)))
            for length in range(1, len(path) + 1):
                self.by_module[path[:length]].append(index)

    def rows(self, rows: Iterable[Row]) -> Matched:
        """What a table says; a time of one operator goes before that of its kind."""
        found = Matched()
        place_of: dict[int, str] = {}
        kinds: dict[tuple[str, Shapes], Row] = {}
        rows = list(rows)
        for row in rows:
            if row.operator is not None:
                index = self._named(row.operator, row.place)
                self._claim([index], row.place, place_of)
                found.operators[index] = row.seconds
            elif row.kind is not None:
                if (row.kind, row.shapes) in kinds:
                    self._refuse(
                        row.place, f"expected one row per kind and shapes, as {kinds[row.kind, row.shapes].place} has"
                    )
                kinds[row.kind, row.shapes] = row
        for row in rows:
            if row.module is not None:
                members = self._members(row)
                self._claim(members, row.place, place_of)
                found.modules.append((members, row.seconds))
        used = set()
        for index, operator in enumerate(self.model.operators):
            key = operator.kind, shapes_read(self.model, operator)
            if key in kinds:
                used.add(key)
                if index not in place_of:
                    found.operators[index] = kinds[key].seconds
        for key in kinds.keys() - used:
            self._refuse_kind(kinds[key])
        return found

    def events(self, events: Sequence[Event], *, nested: bool) -> Matched:
        """What a trace says: of events within each other, the outermost that the model knows; the median of calls."""
        kinds: dict[Signature, list[int]] = defaultdict(list)
        for index, operator in enumerate(self.model.operators):
            kinds[signature_of(self.model, operator)].append(index)
        seconds: dict[object, list[float]] = defaultdict(list)
        biased = set[Signature]()
        inside: float = -1  # depth of a matched event
        for event in events:
            if nested and 0 <= inside < event.depth:
                continue
            keys = self._keys(event, kinds)
            inside = event.depth if keys else -1
            for key in keys:
                seconds[key].append(event.seconds)
            if has_bias(event):
                biased.update(keys)  # type: ignore[arg-type]
        typical: Callable[[list[float]], float] = median if nested else max
        found = Matched()
        taken = set[int]()
        for path, members in self.by_module.items():
            if path in seconds and members[0] not in taken:  # outer modules come first
                found.modules.append((members, typical(seconds[path])))
                taken.update(members)
        for name, index in self.by_name.items():
            if name in seconds and index not in taken:
                found.operators[index] = typical(seconds[name])
        for signature, members in kinds.items():
            for index in members:
                if signature in seconds and index not in taken:
                    found.operators.setdefault(index, typical(seconds[signature]))
                    if signature in biased:
                        found.operators.update(
                            dict.fromkeys(self._bias_of(index) - taken - found.operators.keys(), 0.0)
                        )
        return found

    def _keys(self, event: Event, kinds: Mapping[Signature, object]) -> list[object]:
        """The operator, the module or the kinds that an event measures; empty if the model has none of them."""
        if event.name in self.by_name:
            return [event.name]
        path = _path(event.name)
        if path in self.by_module and "::" not in event.name:
            return [path]
        return [signature for signature in signatures_of(event) if signature in kinds]

    def _bias_of(self, product: int) -> set[int]:
        """The operator that adds a parameter of one dimension to a product, if only that reads the product."""
        (written,) = (access.tensor for access in self.model.operators[product].writes)
        readers = self.readers[written]
        if len(readers) != 1 or self.model.operators[readers[0]].kind not in ("Add", "add"):
            return set()
        others = [access.tensor for access in self.model.operators[readers[0]].reads if access.tensor != written]
        tensors = [self.model.tensors[tensor] for tensor in others]
        return set(readers) if all(tensor.parameter and len(tensor.shape) == 1 for tensor in tensors) else set()

    def _named(self, name: str, place: str) -> int:
        if name not in self.by_name:
            near = near_miss(name, self.by_name)
            self._refuse(place, f"expected an operator of the model, found {shortened(name)}{near}")
        return self.by_name[name]

    def _members(self, row: Row) -> list[int]:
        """The operators of a module's row."""
        assert row.module is not None
        path = _path(row.module)
        if path not in self.by_module:
            near = near_miss(row.module, (".".join(known) for known in self.by_module))
            self._refuse(row.place, f"expected a module of the model, found {shortened(row.module)}{near}")
        operators = self.model.operators
        members = [index for index in self.by_module[path] if row.backward in (None, operators[index].backward)]
        if not members:
            late = "backward" if row.backward else "forward"
            self._refuse(row.place, f"expected operators of the {late} pass in {shortened(row.module)}, found none")
        return members

    def _claim(self, members: Iterable[int], place: str, place_of: dict[int, str]) -> None:
        """Note that a row has the time of operators; InputError if another one has it as well."""
        for index in members:
            if index in place_of:
                name = shortened(self.model.operators[index].name)
                self._refuse(place, f"expected one time for {name}, found another on {place_of[index]}")
            place_of[index] = place

    def _refuse_kind(self, row: Row) -> None:
        assert row.kind is not None
        known = {
            f"{operator.kind} {shapes_text(shapes_read(self.model, operator))}" for operator in self.model.operators
        }
        text = f"{row.kind} {shapes_text(row.shapes)}"
        expected = "expected a kind and shapes of inputs that an operator of the model has"
        self._refuse(row.place, f"{expected}, found {shortened(text)}{near_miss(text, sorted(known))}")

    def _refuse(self, place: str, expected: str) -> None:
        raise InputError(self.source, place, expected)


def _path(name: str) -> tuple[str, ...]:
    """The components of a module's name, between slashes or dots."""
    return tuple(part for part in re.split("[/.]", name) if part)
