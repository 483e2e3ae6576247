"""The configurations of a block: tensor-parallel degrees inside a machine, with activations kept or computed again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from shardmark import api
from shardmark.harness.verify import verify
from shardmark.instances.errors import InputError
from shardmark.instances.models.as_intraop import Sharding, as_intraop
from shardmark.instances.models.fuse import fuse
from shardmark.instances.models.model import BITS, Model
from shardmark.instances.models.roofline import roofline
from shardmark.instances.models.sharding.times import PASSES
from shardmark.plans.cluster.kept import kept
from shardmark.plans.cluster.run import Run
from shardmark.plans.cluster.submodels import structure, with_borders

#: Seconds for the search for the sharding of one block in one degree.
SHARDING_S = 10.0


@dataclass(frozen=True)
class Costs:
    """A block on the devices of a replica, per device.

    ``degree``       devices of a replica
    ``lean``         True for the sharding that was chosen with the update of parameters in mind, which splits these
    ``forward_s``, ``step_s``  seconds of a microbatch: of its forward pass, and of all passes
    ``weights``      bytes of parameters; ``state_own`` and ``state_divided`` those of their state that every replica
                     has, and that the replicas of a stage divide
    ``activations``  bytes that a microbatch keeps for the backward pass
    ``entering``     bytes of what enters the block, whole on every device
    """

    degree: int
    lean: bool
    forward_s: float
    step_s: float
    weights: float
    state_own: float
    state_divided: float
    activations: float
    entering: float


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
            fused, _ = fuse(block)
            known[key] = [costs for degree in run.degrees for costs in _menu(block, fused, degree, run)]
        found.append(known[key])
    return found


def _menu(block: Model, fused: Model, degree: int, run: Run) -> list[Costs]:
    """The costs in one degree; none if no tensor of the block can be split so. ``fused`` is what devices run."""
    if degree == 1:
        forward = float(roofline(fused, run.device).seconds.sum())
        return [_costs(block, run, 1, False, (forward, forward * (PASSES if run.training else 1)), {})]
    bordered, found = with_borders(fused), list[Costs]()
    for lean in (False, True) if run.training else (False,):
        sharding = _sharding(bordered, degree, run, training=run.training, updates=lean)
        solved = None if sharding is None else api.solve(sharding.instance, "cfn-native", timeout=SHARDING_S)
        if sharding is None or solved is None or solved.cost is None:
            break
        choices = solved.solution[: len(sharding.groups)]
        times = _seconds(bordered, degree, run, choices, training=False), _seconds(bordered, degree, run, choices)
        one = _costs(block, run, degree, lean, times, _parts(sharding, solved.solution))
        if not found or (one.weights, one.activations) != (found[0].weights, found[0].activations):
            found.append(one)
    return found


def _costs(
    block: Model,
    run: Run,
    degree: int,
    lean: bool,
    times: tuple[float, float],
    parts: Mapping[str, int],
) -> Costs:
    """The costs of a sharding that takes these ``times``, and splits tensors, by name, into ``parts``."""
    weights = {t for index in range(len(block.operators)) for t in block.parameters(index)}
    own = divided = held = 0.0
    for tensor in (block.tensors[weight] for weight in weights):
        share = tensor.bytes / parts.get(tensor.name, 1)
        more = run.state(max(BITS[tensor.dtype] // 8, 1)) if "float" in tensor.dtype else (1.0, 0.0)
        own, divided, held = own + more[0] * share, divided + more[1] * share, held + share
    tensors = block.tensors
    entering = float(sum(x.bytes for x in tensors if x.producer is None and not x.parameter))
    activations = sum(tensors[t].bytes / parts.get(tensors[t].name, 1) for t in kept(block)) if run.training else 0.0
    return Costs(degree, lean, *times, held, own, divided, activations, entering)


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
