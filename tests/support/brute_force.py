"""Small random instances for the integer programs of placement, and the best of all their placements."""

from __future__ import annotations

import math
import os
import random
from contextlib import suppress
from dataclasses import replace

import numpy as np
from placements import draw_instance, placements

from harness.verify.placement import verify
from instances.errors import InputError
from instances.placement import Instance

#: Instances for each engine and mode, where so many are to be drawn, else a few.
DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0"))


def small(draw: random.Random, contiguity: str, most: int = 300, filling: float = 0.5) -> Instance:
    """An instance with at most so many placements, with options that the programs cover.

    As often as ``filling`` says some set of nodes fills a memory such that the last bits decide whether it fits.
    """
    while True:
        options = {
            "contiguity": contiguity,
            "schedule": draw.choice(["pipedream", "gpipe"]),
            "overlap": draw.choice(["none", "none", "half", "full"]),
            **draw.choice([{}, {"cluster": draw.randint(1, 3), "slowdown": draw.choice([1.5, 3.0])}]),
        }
        instance = draw_instance(draw, 8, **options)
        if instance.accelerators and draw.random() < 0.2:
            instance = replace(instance, accelerators=draw.randint(4, 7))
        if (instance.accelerators + instance.cpus) ** (int(instance.unit.max()) + 1) <= most:
            with suppress(InputError):  # too large for the accelerators, and there are no CPUs
                return instance if draw.random() >= filling else filled(draw, instance)


def filled(draw: random.Random, instance: Instance) -> Instance:
    unit = instance.unit
    some = np.isin(unit, draw.sample(range(int(unit.max()) + 1), draw.randint(1, int(unit.max()) + 1)))
    scale = draw.choice([1.0, 1e-6, 2.0**40])
    size = np.array([draw.choice([draw.random(), draw.randint(1, 3), 0.1]) for _ in unit]) * scale
    memory = math.fsum(size[some].tolist()) / (1 + 1e-9) * (1 + draw.choice([-2, -1, 0, 0, 1]) * 2.0**-52)
    return replace(instance, size=size, memory=memory)


def optimum(instance: Instance) -> float:
    """The least cost of any placement; infinite if none is feasible."""
    verdicts = [verify(instance, place) for place in placements(instance)]
    return min((v.cost for v in verdicts if v.feasible and v.cost is not None), default=math.inf)
