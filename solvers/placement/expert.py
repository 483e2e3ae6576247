"""A split made by hand, reported unchanged."""

from __future__ import annotations

import json

from shardmark.instances.placement import Instance
from shardmark.solvers.registry import Declined, Run, solver


@solver(track="placement", source="Tarnawski et al. 2020, Section 6, hand-crafted placements", proves_bounds=False)
def expert(instance: Instance, run: Run, *, split: str = "") -> None:
    """Report a given split: --set split=@FILE.

    The file holds a solution in the format that `shardmark check` reads, such as a split by the paper's experts.
    Declined without one.
    """
    if not split:
        raise Declined("expert makes no split of its own, expected --set split=@FILE")
    try:
        run.report(json.loads(split))
    except ValueError as error:
        raise Declined(f"the split is no JSON: {error}") from None
