"""Stages of equally many layers, with the same degrees everywhere and recomputation everywhere or nowhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from shardmark.instances.hybrid import Instance
from shardmark.solvers.hybrid.uniform.layers import cuts, layers_of
from shardmark.solvers.hybrid.uniform.runs import Best, Runs
from shardmark.solvers.registry import Declined, Run, solver


@solver(track="hybrid", source="Tarnawski et al. 2021, Section 5, equal stages; PipeDream-2BW", proves_bounds=False)
def equal_stages(instance: Instance, run: Run) -> None:
    """Deal layers to stages equally, later ones one more; ends join these or have stages; best degrees."""
    _best(instance, run, lambda layers, stages: [(layers + i) // stages for i in range(stages)], ends=True)


@solver(track="hybrid", source="Megatron-LM, Narayanan et al. 2021", proves_bounds=False)
def equal_layers(instance: Instance, run: Run) -> None:
    """Deal layers to stages if their number divides evenly; the ends join the first and last stage; best degrees."""
    _best(instance, run, lambda layers, stages: [layers // stages] * stages if layers % stages == 0 else [])


@solver(track="hybrid", source="TorchTitan, Liang et al. 2024: input and output count as a layer", proves_bounds=False)
def torchtitan(instance: Instance, run: Run) -> None:
    """Deal layers equally, earlier stages one more, but the first and last stage one less; best degrees."""
    _best(instance, run, _one_less)


def _one_less(layers: int, stages: int) -> list[int]:
    counts = [-(-(layers + 2 - i) // stages) for i in range(stages)]
    counts[0] -= 1
    counts[-1] -= 1
    return counts if min(counts) > 0 else []


def _best(instance: Instance, run: Run, deal: Callable[[int, int], list[int]], *, ends: bool = False) -> None:
    """Report the best plan over numbers of stages, degrees and recomputation."""
    runs = Runs(instance)
    layers, best = layers_of(runs), Best(runs, run)
    for stages in range(1, min(len(layers), instance.devices, instance.batch) + 1):
        counts = deal(len(layers), stages)
        for own in (False, True) if counts and ends else (False,) if counts else ():
            cut = cuts(runs, layers, counts, own=own)
            if cut is None:
                continue
            for degree in runs.degrees:
                for kind in range(len(degree.kinds)):
                    if not run.remaining():
                        return
                    best.offer(degree, cut, np.full(len(cut) - 1, kind))
    if best.cost == np.inf:
        raise Declined("no number of equal stages fits the devices and the memory")
