"""Lays a training or serving run out over a cluster, and proves how far from the best layout that is."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from shardmark.harness import verify
from shardmark.instances.hybrid import Instance
from shardmark.instances.models.model import Model
from shardmark.instances.models.roofline import computed_in
from shardmark.plans.cluster.attention import with_kernels
from shardmark.plans.cluster.blocks import Block, blocks_of
from shardmark.plans.cluster.certified_layout import CertifiedLayout, Stage
from shardmark.plans.cluster.configurations import Costs, costs_of
from shardmark.plans.cluster.memory import lacking_bytes, working_bytes
from shardmark.plans.cluster.practice import practices
from shardmark.plans.cluster.problem import AGAIN, problem
from shardmark.plans.cluster.run import Run
from shardmark.plans.cluster.saving import save
from shardmark.plans.cluster.submodels import forward_pass, part_of
from shardmark.plans.cluster.text import text
from shardmark.plans.solving import Step, certify

STEPS = (Step("search", "solver", 0.7), Step("dp", "solver", 1.0))


@dataclass(frozen=True)
class ClusterLayout(CertifiedLayout):
    """A layout of a run, as `shardmark.plan` returns it; the fields are those of `CertifiedLayout`."""

    def save(self, folder: str | os.PathLike[str], *, export: str | None = None) -> Path:
        """Write ``plan.json``, ``instance.json`` and ``solution.json`` into a folder, which is made if needed.

        ``export="torch"`` adds ``layout.torch.json``, of which PyTorch makes a pipeline. Returns the path of
        ``plan.json``. Raises InputError if the layout has no such file.
        """
        return save(self, Path(folder), export)

    def __str__(self) -> str:
        return text(self)


def lay_out(
    source: Path, model: Model, run: Run, *, timeout: float, cores: int, seed: int, tell: Callable[[str], None]
) -> ClusterLayout:
    """The best layout that is found; InputError if none fits, with the bytes that are missing."""
    forward = forward_pass(model)
    blocks = blocks_of(forward)
    parts = [with_kernels(part_of(forward, block.operators)) for block in blocks]
    for part, block in zip(parts, blocks, strict=True):
        part.name = block.name
    tell(f"{len(blocks)} blocks; degrees {', '.join(map(str, run.degrees))}")
    costs = costs_of(parts, run, tell)
    relaxed = problem(forward, blocks, costs, run, run.device.memory)
    customs = practices(relaxed, costs)
    known = min(((one.solution, one.cost) for one in customs if one.cost is not None), key=itemgetter(1), default=None)
    found = certify(relaxed, STEPS, timeout, tell, cores=cores, seed=seed, unit_us=1e6, known=known)
    bound, bound_from = found.lower_bound, found.bound_from
    reserve = 0.0
    while lacking_bytes(relaxed, found.solution, costs) > 0:
        reserve = max(2 * reserve, *working_bytes(found.solution, costs))
        tell(f"reserving {reserve / 2**30:.2g} GiB for blocks while they are computed again")
        tightened = problem(forward, blocks, costs, run, max(run.device.memory - reserve, 0.0))
        found = certify(tightened, STEPS, timeout, tell, cores=cores, seed=seed, unit_us=1e6, known=known)
    cost = float(verify.verify(relaxed, found.solution).cost or 0)
    return ClusterLayout(
        source,
        forward,
        blocks,
        run,
        relaxed,
        found.solution,
        cost,
        float(bound),
        bound_from,
        _stages(relaxed, found.solution, blocks, costs),
        customs,
        _utilisation(forward, run, cost),
    )


def _stages(
    instance: Instance, solution: Mapping[str, Any], blocks: Sequence[Block], costs: Sequence[Sequence[Costs]]
) -> list[Stage]:
    stages, working = verify.stages(instance, solution), working_bytes(solution, costs)
    assert stages is not None
    rows = []
    for i, replicas in enumerate(stages.data):
        mine = [v for v, stage in enumerate(solution["stage"]) if stage == i]
        again = [v for v in mine if solution["configuration"][v].startswith(AGAIN)]
        rows.append(
            Stage(
                tuple(blocks[v].name for v in mine),
                tuple(blocks[v].name for v in again),
                replicas,
                stages.tensor[i],
                stages.microbatch[i],
                stages.sync[i],
                {**stages.held[i], "working": working[i]},
            )
        )
    return rows


def _utilisation(model: Model, run: Run, cost: float) -> float:
    """Share of the peak rate that the model's products have, those of recomputation not counted."""
    products = [index for index, operator in enumerate(model.operators) if operator.multiply_adds]
    if not products:
        return 0.0
    passes = 3 if run.training else 1
    seconds = sum(
        2 * model.operators[index].multiply_adds / run.device.rate(computed_in(model, index)) for index in products
    )
    times = run.microbatches if run.training else 1
    return passes * times * seconds / (cost * run.machines * run.devices)
