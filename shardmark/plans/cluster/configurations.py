"""The configurations of a block: tensor-parallel degrees inside a machine, with activations kept or computed again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace

from shardmark import api
from shardmark.harness.verify import verify
from shardmark.instances.errors import InputError
from shardmark.instances.models.as_intraop import Sharding, as_intraop
from shardmark.instances.models.fuse import fuse, join
from shardmark.instances.models.model import BITS, Model
from shardmark.instances.models.roofline import roofline
from shardmark.instances.models.sharding.times import PASSES
from shardmark.plans.cluster.kept import kept
from shardmark.plans.cluster.run import KINDS, Run
from shardmark.plans.cluster.submodels import structure, with_borders

#: Seconds for the search for the sharding of one block in one degree.
SHARDING_S = 10.0


@dataclass(frozen=True)
class Costs:
    """A block on the devices of a replica, per device.

    ``degree``       devices of a replica
    ``lean``         True for the sharding that was chosen with the update of parameters in mind, which splits these
    ``forward_s``, ``step_s``  seconds of a microbatch: of its forward pass, and of all passes
    ``gather_s``     seconds to gather the activations that are kept, ``enter_s`` those for what enters the block
    ``weights``      bytes of parameters; ``state`` those of their state by `run.KINDS`, before replicas divide any
    ``whole``        bytes of weights and gradients that replicas divide, but have whole while the block runs
    ``activations``  bytes that a microbatch keeps for the backward pass; ``running`` the same while that runs
    ``entering``     bytes that a microbatch keeps of what enters the block
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
    gap: float | None


def costs_of(blocks: Sequence[Model], run: Run, tell: Callable[[str], None]) -> list[list[Costs]]:
    """The costs of every block in every degree that can run it, ascending; blocks of equal structure are solved once.

    The sharding of a block is the best one of track ``intraop`` on a row of ``degree`` devices, where all devices have
    what enters and leaves the block as a whole. There are two in training: the fastest for a microbatch, and the
    fastest if each updated the parameters, which mostly splits them.
    """
    known: dict[object, list[Costs]] = {}
    found = []
    for block in blocks:
        key = structure(block)
        if key not in known:
            tell(f"sharding {block.name}, {len(block.operators):,} operators")
            fused = _fused(block)
            known[key] = [costs for degree in run.degrees for costs in _menu(block, *fused, degree, run)]
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


def _menu(block: Model, fused: Model, members: Sequence[Sequence[int]], degree: int, run: Run) -> list[Costs]:
    """The costs in one degree; none if no tensor of the block can be split so.

    ``fused`` is what devices run, ``members`` the operators of the block that each of its operators joins.
    """
    if degree == 1:
        forward = float(roofline(fused, run.device).seconds.sum())
        return [_costs(block, run, 1, False, (forward, forward * (PASSES if run.training else 1)), {}, 0.0)]
    bordered, found = with_borders(fused), list[Costs]()
    for lean in (False, True) if run.training else (False,):
        sharding = _sharding(bordered, degree, run, training=run.training, updates=lean)
        solved = None if sharding is None else api.solve(sharding.instance, "cfn-native", timeout=SHARDING_S)
        if sharding is None or solved is None:
            break
        if solved.cost is None:
            expected = f"expected at most {degree // 2}: no sharding of {len(block.operators):,} operators on {degree}"
            raise InputError(block.name, "max_tensor", f"{expected} devices was found in {SHARDING_S:g} s")
        choices = solved.solution[: len(sharding.groups)]
        times = _seconds(bordered, degree, run, choices, training=False), _seconds(bordered, degree, run, choices)
        parts = _all_parts(block, fused, members, _parts(sharding, solved.solution))
        found.append(_costs(block, run, degree, lean, times, parts, solved.gap))
    if len(found) > 1 and all(x >= y for x, y in zip(*map(_needs, found), strict=True)):  # as fast, and leaner
        return [replace(found[1], lean=False, gap=found[0].gap)]
    return found


def _needs(costs: Costs) -> list[float]:
    """Seconds and bytes, the less the better."""
    return [getattr(costs, one.name) for one in fields(costs) if one.name not in ("degree", "lean", "gap")]


def _all_parts(
    block: Model, fused: Model, members: Sequence[Sequence[int]], parts: Mapping[str, int]
) -> dict[str, int]:
    """The parts of all tensors of a block: what joined operators pass on among them is split as what they write."""
    found = dict(parts)
    for operator, joined in zip(fused.operators, members, strict=True):
        written = min((parts[fused.tensors[access.tensor].name] for access in operator.writes), default=1)
        for access in (access for member in joined for access in block.operators[member].writes):
            found.setdefault(block.tensors[access.tensor].name, written)
    return found


def _costs(
    block: Model,
    run: Run,
    degree: int,
    lean: bool,
    times: tuple[float, float],
    parts: Mapping[str, int],
    gap: float | None,
) -> Costs:
    """The costs of a sharding that takes these ``times``, and splits tensors, by name, into ``parts``.

    Of an activation that every device has whole, each keeps a share, and they gather it for the backward pass, as with
    sequence parallelism (Korthikanti et al., MLSys 2023, Section 4.2).
    """
    weights = {t for index in range(len(block.operators)) for t in block.parameters(index)}
    state, held = [0.0] * len(KINDS), 0.0
    for tensor in (block.tensors[weight] for weight in weights):
        share = tensor.bytes / parts.get(tensor.name, 1)
        sizes = run.state(max(BITS[tensor.dtype] // 8, 1)) if "float" in tensor.dtype else (1.0, 0.0, 0.0)
        state, held = [old + size * share for old, size in zip(state, sizes, strict=True)], held + share
    stored = [block.tensors[index] for index in kept(block)] if run.training else []
    running = sum(tensor.bytes / parts.get(tensor.name, 1) for tensor in stored)
    gathered = [tensor.bytes for tensor in stored if parts.get(tensor.name, 1) == 1]
    entering = [tensor.bytes for tensor in block.tensors if tensor.producer is None and not tensor.parameter]
    activations = running - sum(gathered) * (1 - 1 / degree)
    gather_s, enter_s = (_gathering(sizes, degree, run) for sizes in (gathered, entering))
    seconds, whole = (*times, gather_s, enter_s), run.whole * held
    enters = sum(entering) / degree
    return Costs(degree, lean, *seconds, held, tuple(state), whole, activations, running, enters, gap)


def _gathering(sizes: Sequence[int], degree: int, run: Run) -> float:
    """Seconds in which the devices of a replica gather tensors of which each has a share."""
    if degree == 1 or not run.training:
        return 0.0
    moved = sum(sizes) * (1 - 1 / degree)
    return moved / run.device.link_bandwidth + len(sizes) * run.device.link_latency


def _sharding(block: Model, degree: int, run: Run, *, training: bool, updates: bool) -> Sharding | None:
    """The instance of a block on a row of devices; None if they divide no dimension of a tensor."""
    try:
        return as_intraop(block, run.device, str(degree), training=training, updates=updates, memory=math.inf)
    except InputError:
        return None


def _seconds(block: Model, degree: int, run: Run, choices: Sequence[int], *, training: bool | None = None) -> float:
    """Seconds of a microbatch with the strategies of groups, which do not depend on the passes."""
    training = run.training if training is None else training
    sharding = _sharding(block, degree, run, training=training, updates=False)
    assert sharding is not None
    verdict = verify(sharding.instance, sharding.solution(choices))
    if not verdict.feasible or verdict.cost is None:
        raise AssertionError(f"expected a sharding, found {verdict.violations}")
    return 1e-9 * float(verdict.cost)


def _parts(sharding: Sharding, solution: Sequence[int]) -> dict[str, int]:
    """Into how many parts a solution splits every tensor, by name."""
    sizes = sharding.mesh.sizes
    return {
        sharding.model.tensors[tensor].name: math.prod(sizes[axis] for axis, dim in enumerate(layout) if dim >= 0)
        for tensor, layout in sharding.layouts(solution).items()
    }
