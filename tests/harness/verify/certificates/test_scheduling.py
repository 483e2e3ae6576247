"""Certificates of ``scheduling``: no formula, whatever its parameters, exceeds the optimum of a brute force."""

from __future__ import annotations

import math
import os
import random

from attacked_proofs import attack, blocks, proven, reported
from effort import draws
from oracle_scheduling import draw, optimum

from shardmark.harness.verify.certificates import Exact
from shardmark.instances.scheduling import Instance
from shardmark.solvers.scheduling.bounds.critical_path import critical_path
from shardmark.solvers.scheduling.bounds.energetic import energetic
from shardmark.solvers.scheduling.bounds.load import load
from shardmark.solvers.scheduling.cp_sat import cp_sat
from shardmark.solvers.scheduling.memory_first import memory_first
from shardmark.solvers.scheduling.schedules.formulas import all_schedules

METHODS = (load, critical_path, energetic, cp_sat)
DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0")) or draws(60, 30, 300)


def parameters(instance: Instance, rng: random.Random):
    """Yield parameters of formulas; a time of all vertices and tensors in sequence has some bits."""
    yield {"name": "path"}
    if not instance.nodes:
        return
    n, k, bits = instance.nodes, instance.devices, rng.choice([3, 20, 40, 58])
    some = rng.sample(range(k), rng.randint(1, k))
    ends = {"scale": bits - math.frexp(instance.horizon())[1], "ancestors": rng.choice([0, 1, 24])}
    lists = [rng.sample(range(n), rng.randint(1, min(n, 3))) for _ in range(rng.randint(0, 4))]
    cases = {"reach": rng.randint(1, n + 1), "cases": lists, "elsewhere": rng.randint(0, 1)}
    interval = {key: rng.randrange(1 << rng.randint(0, min(bits, 57))) for key in ("head", "tail")}
    yield {"name": "work", "devices": rng.choice([None, some])}
    yield {"name": "heads", **ends}
    yield {"name": "heads", **ends, **cases}
    yield {"name": "work", "devices": rng.choice([None, some]), **ends, **interval, **cases}


def proofs(instance: Instance, rng: random.Random, best: Exact | None):
    """Yield proofs by formulas with random parameters, and those of methods with the bounds that they report."""
    if best is not None and all_schedules(instance, 0.0) and rng.randrange(4) == 0:
        yield float(best) * (1 - 1e-12), {"kind": "solutions"}
    for told in parameters(instance, rng):
        yield 0.0, {"kind": "formula", **told}
    if rng.randrange(8) == 0:
        yield from reported(instance, METHODS, 5.0)


@blocks(DRAWS, 50)
def test_no_proof_proves_more_than_the_optimum(seeds: range):
    attack(seeds, draw, optimum, proofs)


def test_solvers_certify_their_first_bounds():
    instance = draw(random.Random("certificates 3"))
    found = list(reported(instance, (memory_first, cp_sat), 0.5))
    assert len(found) == 2
    for bound, proof in found:
        value = proven(instance, proof)
        assert value is not None
        assert value >= bound > 0
