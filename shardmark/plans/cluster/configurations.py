"""The configurations of a block: tensor-parallel degrees inside a machine, with activations kept or computed again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from shardmark import api
from shardmark.harness.verify import verify
from shardmark.instances.errors import InputError
from shardmark.instances.models.as_intraop import Sharding, as_intraop
from shardmark.instances.models.fuse import fuse, join
from shardmark.instances.models.model import BITS, Model, Tensor
from shardmark.instances.models.roofline import roofline
from shardmark.instances.models.sharding.times import PASSES
from shardmark.plans.cluster.kept import kept
from shardmark.plans.cluster.run import KINDS, Run
from shardmark.plans.cluster.serving.live import peak_bytes
from shardmark.plans.cluster.steps.times import forward_seconds
from shardmark.plans.cluster.submodels import structure, with_borders

#: Seconds for the search for the sharding of one block in one degree.
SHARDING_S = 10.0
#: How often the update of parameters counts among the fastest shardings: of equal ones, that which splits them is best.
TIE = 1e-3


@dataclass(frozen=True)
class Costs:
    """A block on the devices of a replica, per device.

    ``degree``       devices of a replica
    ``lean``         True for the sharding that was chosen with the update of parameters in mind, which splits these
    ``forward_s``, ``step_s``  seconds of a microbatch: of its forward pass, and of all passes
    ``gather_s``     seconds to gather the activations that are kept, ``enter_s`` those for what enters the block
    ``weights``      bytes of parameters; ``state`` those of their state by `run.KINDS`, before replicas divide any
    ``whole``        bytes of weights and gradients that replicas divide, but have whole while the block runs
    ``activations``  bytes that a microbatch keeps for the backward pass
    ``running``      the same while the backward pass runs; for serving, activations while the block runs, at most
    ``entering``     bytes that a microbatch keeps of what enters the block
    ``splits``       of every parameter, in the order in which the block reads them, True for dimensions that are split
    ``gap``          by how much another sharding may be faster at most, of the time; 0.0 if it is proven the fastest
    """

    degree: int
    lean: bool
    forward_s: float
    step_s: float
    gather_s: float
    enter_s: float
    weights: float
    state: tuple[float, ...]
    whole: float
    activations: float
    running: float
    entering: float
    splits: tuple[tuple[bool, ...], ...]
    gap: float | None


def parameters_of(block: Model) -> list[Tensor]:
    """The parameters of a block in the order in which it reads them."""
    read = dict.fromkeys(t for index in range(len(block.operators)) for t in block.parameters(index))
    return [block.tensors[tensor] for tensor in read]


def costs_of(blocks: Sequence[Model], run: Run, tell: Callable[[str], None]) -> list[list[Costs]]:
    """The costs of every block in every degree that can run it, ascending; blocks of equal structure are solved once.

    The sharding of a block is the best one of track ``intraop`` on a row of ``degree`` devices, where all devices have
    what enters and leaves the block as a whole. There are two: the fastest for a microbatch, and the fastest if each
    updated the parameters, which mostly splits them. In training, blocks without a backward pass get one by rule,
    unless others have one.
    """
    rule = run.training and not any(operator.backward for block in blocks for operator in block.operators)
    known: dict[object, list[Costs]] = {}
    found = []
    for block in blocks:
        key = structure(block)
        if key not in known:
            tell(f"sharding {block.name}, {len(block.operators):,} operators")
            fused = _fused(block)
            known[key] = [costs for degree in run.degrees for costs in _menu(block, *fused, degree, run, rule)]
        found.append(known[key])
    return found


def _fused(block: Model) -> tuple[Model, list[list[int]]]:
    """What devices run: chains of cheap operators joined, as `fuse` does, but with no arithmetic after a product.

    The sum of a product that is split along its inner dimension has to be complete before that. Returns the model, and
    the operators of the block that each of its operators joins.
    """
    readers, groups = block.readers(), list[list[int]]()
    for group in fuse(block)[1]:
        product, later = set[int](), set[int]()
        for index in group:
            operator = block.operators[index]
            following = {reader for access in operator.writes for reader in readers[access.tensor]}
            if index in later or (index in product and not operator.view and operator.kind.lower() != "transpose"):
                later |= {index, *following}
            elif operator.multiply_adds or index in product:
                product |= following
        groups += [part for part in ([i for i in group if i not in later], [i for i in group if i in later]) if part]
    return join(block, groups)


def _menu(
    block: Model, fused: Model, members: Sequence[Sequence[int]], degree: int, run: Run, rule: bool
) -> list[Costs]:
    """The costs in one degree; none if no tensor of the block can be split so.

    ``fused`` is what devices run, ``members`` the operators of the block that each of its operators joins, ``rule``
    tells whether the backward pass is to be added.
    """
    if degree == 1:
        seconds = roofline(fused, run.device).seconds
        forward = float(seconds[[not operator.backward for operator in fused.operators]].sum())
        every = float(seconds.sum()) * (PASSES if rule else 1)
        return [_costs(block, fused, run, 1, False, (forward, every), {}, 0.0)]
    bordered, found = with_borders(fused), list[Costs]()
    for lean, updates in ((False, TIE), (True, 1.0)):
        sharding = _sharding(bordered, degree, run, training=rule, updates=updates)
        solved = None if sharding is None else api.solve(sharding.instance, "cfn-native", timeout=SHARDING_S)
        if sharding is None or solved is None:
            break
        if solved.cost is None:
            expected = f"expected at most {degree // 2}: no sharding of {len(block.operators):,} operators on {degree}"
            raise InputError(block.name, "max_tensor", f"{expected} devices was found in {SHARDING_S:g} s")
        choices = solved.solution[: len(sharding.groups)]
        times = _times(bordered, degree, run, choices, rule)
        split = _all_splits(block, fused, members, _splits(sharding, solved.solution))
        one = _costs(block, fused, run, degree, lean, times, split, solved.gap)
        if not found or (one.weights, one.activations) != (found[0].weights, found[0].activations):
            found.append(one)
    return found


def _all_splits(
    block: Model, fused: Model, members: Sequence[Sequence[int]], split: Mapping[str, tuple[bool, ...]]
) -> dict[str, tuple[bool, ...]]:
    """The split dimensions of all tensors of a block, by name.

    What joined operators pass on among them counts as split, in some dimension, if all that they write is.
    """
    found = dict(split)
    for operator, joined in zip(fused.operators, members, strict=True):
        written = min((any(split[fused.tensors[access.tensor].name]) for access in operator.writes), default=False)
        for access in (access for member in joined for access in block.operators[member].writes):
            found.setdefault(block.tensors[access.tensor].name, (written,))
    return found


def _costs(
    block: Model,
    fused: Model,
    run: Run,
    degree: int,
    lean: bool,
    times: tuple[float, float],
    split: Mapping[str, tuple[bool, ...]],
    gap: float | None,
) -> Costs:
    """The costs of a sharding that takes these ``times``, and splits these dimensions of tensors, by name.

    Of an activation that every device has whole, each keeps a share, and they gather it for the backward pass, as with
    sequence parallelism (Korthikanti et al., MLSys 2023, Section 4.2). ``times`` are without that, as shardings have
    what is whole at hand. All such activations count, also those of which the step's own backward pass reads shares.
    """

    def share(tensor: Tensor) -> float:
        return tensor.bytes / degree ** any(split.get(tensor.name, ()))

    tensors, state, held = block.tensors, [0.0] * len(KINDS), 0.0
    for tensor in (weights := parameters_of(block)):
        sizes = run.state(max(BITS[tensor.dtype] // 8, 1)) if "float" in tensor.dtype else (1.0, 0.0, 0.0)
        state = [old + size * share(tensor) for old, size in zip(state, sizes, strict=True)]
        held += share(tensor)
    stored = [tensors[index] for index in kept(block)] if run.training else []
    running = sum(map(share, stored)) if run.training else peak_bytes(fused, share)
    gathered = [tensor.bytes for tensor in stored if not any(split.get(tensor.name, ()))]
    forward = (operator for operator in block.operators if not operator.backward)
    read = (tensors[t] for t in {access.tensor for operator in forward for access in operator.reads})
    entering = [tensor.bytes for tensor in read if tensor.producer is None and not tensor.parameter]
    activations = running - sum(gathered) * (1 - 1 / degree) if run.training else 0.0
    gather_s, enter_s = (_gathering(sizes, degree, run) for sizes in (gathered, entering))
    seconds, whole = (*times, gather_s, enter_s), run.whole * held
    enters = sum(entering) / degree
    splits = tuple(split.get(tensor.name, (False,) * len(tensor.shape)) for tensor in weights)
    return Costs(degree, lean, *seconds, held, tuple(state), whole, activations, running, enters, splits, gap)


def _gathering(sizes: Sequence[int], degree: int, run: Run) -> float:
    """Seconds in which the devices of a replica gather tensors of which each has a share."""
    if degree == 1 or not run.training:
        return 0.0
    moved = sum(sizes) * (1 - 1 / degree)
    return moved / run.device.link_bandwidth + len(sizes) * run.device.link_latency


def _sharding(block: Model, degree: int, run: Run, *, training: bool, updates: float) -> Sharding | None:
    """The instance of a block on a row of devices; None if they divide no dimension of a tensor."""
    try:
        return as_intraop(block, run.device, str(degree), training=training, updates=updates, memory=math.inf)
    except InputError:
        return None


def _times(block: Model, degree: int, run: Run, choices: Sequence[int], rule: bool) -> tuple[float, float]:
    """Seconds of the forward pass and of all passes of a microbatch, with these strategies of groups."""
    sharding, every = _seconds(block, degree, run, choices, training=rule)
    if rule:
        return _seconds(block, degree, run, choices, training=False)[1], every
    return forward_seconds(sharding, sharding.solution(choices), run.device), every


def _seconds(block: Model, degree: int, run: Run, choices: Sequence[int], *, training: bool) -> tuple[Sharding, float]:
    """The sharding of a microbatch, and its seconds with these strategies, which do not depend on the passes."""
    sharding = _sharding(block, degree, run, training=training, updates=0.0)
    assert sharding is not None
    verdict = verify(sharding.instance, sharding.solution(choices))
    if not verdict.feasible or verdict.cost is None:
        raise AssertionError(f"expected a sharding, found {verdict.violations}")
    return sharding, 1e-9 * float(verdict.cost)


def _splits(sharding: Sharding, solution: Sequence[int]) -> dict[str, tuple[bool, ...]]:
    """The dimensions of every tensor that a solution splits, by name."""
    return {name: tuple(map(bool, spec)) for name, spec in sharding.specs(solution).items()}
