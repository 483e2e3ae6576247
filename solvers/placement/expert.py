"""A split that somebody made by hand."""

from __future__ import annotations

import json

from instances.placement import Instance
from solvers.registry import Declined, Run, solver


@solver(track="placement", source="Tarnawski et al. 2020, Section 6, hand-crafted placements")
def expert(instance: Instance, run: Run, *, split: str = "") -> None:
    """Hand in a given split, --set split=JSON in any form of a solution; declines if there is none."""
    if not split:
        raise Declined("no split is given, `--set split=JSON` gives one")
    try:
        run.report(json.loads(split))
    except ValueError as error:
        raise Declined(f"the split is no JSON: {error}") from None
