"""The claims of all methods of a track against each other, on a few instances of 8 to 60 nodes and known bad inputs.

This is the drawn part of `make crosscheck`, see ``tests/support/crosscheck``.
"""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from crosscheck import campaign, drawn
from crosscheck.campaign import Result, Settings, Task
from crosscheck.report import failures, line
from effort import some_of

SEEDS = [(track, seed) for track, seeds in drawn.SEEDS.items() for seed in seeds[: max(2, some_of(len(seeds)))]]
KNOWN = [(track, name) for track, names in drawn.KNOWN.items() for name in names]


def wrong(result: Result) -> list[str]:
    """Return lines about contradictions and failures."""
    return [*(line(result, one) for one in result.contradictions()), *failures(result)]


@pytest.mark.thorough(cases=8)
@pytest.mark.parametrize(("track", "seed"), SEEDS)
def test_no_claim_contradicts_another(track: str, seed: int) -> None:
    result = campaign.check(Task(track, seed), Settings(drawn.SECONDS))
    assert wrong(result) == []
    assert any(claims.bound is not None for claims in result.claims.values())


@pytest.mark.gate
@pytest.mark.parametrize(("track", "name"), KNOWN)
def test_no_claim_is_false_where_one_was(track: str, name: str) -> None:
    result = campaign.check(Task(track, 0, str(drawn.FOLDER / name)), Settings(drawn.SECONDS_KNOWN))
    assert wrong(result) == []
    least = Fraction(json.loads((drawn.FOLDER / drawn.LEAST).read_text())[name])
    bounds = {method: claims.bound for method, claims in result.claims.items() if claims.bound is not None}
    assert {method: bound for method, bound in bounds.items() if bound > least} == {}
