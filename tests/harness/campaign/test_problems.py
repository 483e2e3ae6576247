"""The identity of a problem."""

from __future__ import annotations

from dataclasses import replace

from shardmark.harness.campaign.problems import Problem
from shardmark.instances import catalog


def test_content_track_and_options_make_the_identity_of_a_problem() -> None:
    file = catalog.locate(catalog.find("training-20-free"))
    placement = Problem("graph", file, "placement")
    for same in (Problem("another name", file), Problem("graph", file, "placement", {"cluster": None})):
        assert same.checksum == placement.checksum
    others = [replace(placement, track="pipeline"), replace(placement, options={"contiguity": "free"})]
    assert len({problem.checksum for problem in (placement, *others)}) == 3
