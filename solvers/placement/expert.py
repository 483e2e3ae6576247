"""A split made by hand, handed in as it is."""

from __future__ import annotations

import json

from instances.placement import Instance
from solvers.registry import Declined, Run, solver


@solver(track="placement", source="Tarnawski et al. 2020, Section 6, hand-crafted placements", proves_bounds=False)
def expert(instance: Instance, run: Run, *, split: str = "") -> None:
    """Hand in a given split, --set split=@FILE: a solution as ``shardmark check`` judges it.

    Such files are the splits of the paper's experts. Declined without one.
    """
    if not split:
        raise Declined("expert makes no split of its own, expected --set split=@FILE")
    try:
        run.report(json.loads(split))
    except ValueError as error:
        raise Declined(f"the split is no JSON: {error}") from None
