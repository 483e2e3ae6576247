"""Bounds of ``hybrid`` where products and quotients are below the normal range of float64, and rounded coarsely."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import oracle_hybrid
import pytest
from fuzz import attempt, methods

from shardmark.harness.verify.hybrid import verify
from shardmark.instances.hybrid import Instance, parse

#: The least positive float64.
LEAST = 5e-324


def chain(nodes: int, configuration: dict[str, float], **top: Any) -> Instance:
    """Return equal nodes in a row."""
    sizes = {"timePerSample": 0, "parameterSize": 0, "memoryUsageA": 0, "memoryUsageB": 0, **configuration}

    def entry(v: int) -> dict[str, Any]:
        before, after = [{str(u): 0} if 0 <= u < nodes else {} for u in (v - 1, v + 1)]
        return {"id": "x", **sizes, "syncTimeFw": before, "syncTimeBw": after}

    document = {
        "maxMemoryPerDevice": 1,
        "bandwidth": 1,
        **top,
        "nodes": [{"id": v, "TMPCs": {"1": [entry(v)]}} for v in range(nodes)],
        "edges": [{"sourceId": v, "destId": v + 1, "communicationCost": 0} for v in range(nodes - 1)],
    }
    return parse(document, "chain")


INSTANCES = {
    "0.6 of the least number per device, for 1,000 microbatches": chain(
        1, {"timePerSample": 3 * LEAST}, maxDevices=5, mbsInBatch=1000, options={"objective": "step"}
    ),
    "2.7 times the least number, divided by a bandwidth": chain(
        1, {"timePerSample": 1e-23, "parameterSize": LEAST}, maxDevices=3, mbsInBatch=3, bandwidth=1e-300
    ),
    "0.7 of the least number, divided by a bandwidth": chain(
        1, {"timePerSample": 1e-23, "gatherSize": LEAST}, maxDevices=3, mbsInBatch=3, bandwidth=1e-300
    ),
    "2 over the bandwidth is infinite": chain(2, {"timePerSample": 1}, maxDevices=2, mbsInBatch=2, bandwidth=LEAST),
    "batches of few least numbers": chain(
        3, {"timePerSample": 9 * LEAST}, maxDevices=2, mbsInBatch=2, options={"objective": "step"}
    ),
}


@pytest.mark.parametrize("name", ["simple", "relaxed-dp", "dp", "search", "same-degrees", "equal-layers"])
@pytest.mark.parametrize("instance", INSTANCES.values(), ids=list(INSTANCES))
def test_no_bound_exceeds_the_optimum(instance: Instance, name: str) -> None:
    best = oracle_hybrid.optimum(instance)
    assert best is not None
    run, reason = attempt(methods("hybrid")[name].function, instance, timeout=1.0)
    assert reason is None
    assert all(Fraction(bound) <= best for bound in run.bounds)
    if name in ("dp", "search"):
        assert verify(instance, run.solutions[-1]).cost == pytest.approx(float(best), rel=1e-9)
