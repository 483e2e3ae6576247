"""The parts of a plan: operators, times, parameters and transfers of each stage or device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shardmark.instances.models.model import Model
from shardmark.plans.modules import held_modules


@dataclass(frozen=True)
class Part:
    """A stage of a pipeline, or a device.

    ``operators``        names, in an order in which they can run
    ``compute_us``       time of its operators, one after another, in microseconds
    ``load_us``          time that it is busy per run of the model, in microseconds; in a schedule, without transfers
    ``parameter_bytes``  bytes of the parameters that its operators read, each once
    ``received_bytes``   bytes of the tensors that come from other parts, each once
    ``sent_bytes``       bytes of the tensors that go to other parts, each once
    ``modules``, ``cut_modules``  modules that it holds, and those that it shares, see `shardmark.plans.modules.Held`
    """

    name: str
    operators: tuple[str, ...]
    compute_us: float
    load_us: float
    parameter_bytes: int
    received_bytes: int
    sent_bytes: int
    modules: tuple[str, ...] = ()
    cut_modules: tuple[str, ...] = ()


def parts_of(
    model: Model,
    part_of: Sequence[int],
    names: Sequence[str],
    operator_us: Sequence[float],
    loads: Sequence[float],
) -> list[Part]:
    """The parts that a split makes of a model.

    ``part_of``, ``operator_us``  part and time of every operator; ``names``, ``loads``  name and load of every part
    """
    operators: list[list[int]] = [[] for _ in names]
    for index, part in enumerate(part_of):
        operators[part].append(index)
    received, sent = crossing_bytes(model, part_of, len(names))
    modules = held_modules(model, part_of, len(names))
    parameters = [
        sum(model.tensors[tensor].bytes for tensor in {t for index in held for t in model.parameters(index)})
        for held in operators
    ]
    return [
        Part(
            name=names[part],
            operators=tuple(model.operators[index].name for index in held),
            compute_us=sum(operator_us[index] for index in held),
            load_us=loads[part],
            parameter_bytes=parameters[part],
            received_bytes=received[part],
            sent_bytes=sent[part],
            modules=modules[part].modules,
            cut_modules=modules[part].cut,
        )
        for part, held in enumerate(operators)
    ]


def crossing_bytes(model: Model, part_of: Sequence[int], parts: int) -> tuple[list[int], list[int]]:
    """Bytes that each part receives and sends: a tensor counts once per part that reads it, and once for its sender."""
    received, sent = [0] * parts, [0] * parts
    for index, (tensor, readers) in enumerate(zip(model.tensors, model.readers(), strict=True)):
        if tensor.producer is None:
            continue
        home = part_of[model.returned.get(index, tensor.producer)]
        others = {part_of[user] for user in (tensor.producer, *readers)} - {home}
        for part in others:
            received[part] += tensor.bytes
        sent[home] += tensor.bytes if others else 0
    return received, sent


def in_order(part_of: Sequence[int], edges: Sequence[tuple[int, int]]) -> list[int]:
    """The parts with operators, in a topological order if there is one, else by number."""
    after: dict[int, set[int]] = {part: set() for part in sorted(set(part_of))}
    waiting = dict.fromkeys(after, 0)
    for tail, head in edges:
        u, v = part_of[tail], part_of[head]
        if u != v and v not in after[u]:
            after[u].add(v)
            waiting[v] += 1
    order = [part for part in after if not waiting[part]]
    for part in order:  # which grows on the way
        for other in sorted(after[part]):
            waiting[other] -= 1
            if not waiting[other]:
                order.append(other)
    return order if len(order) == len(after) else list(after)
