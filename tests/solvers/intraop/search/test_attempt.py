"""The time that methods reserve at the end."""

from __future__ import annotations

import pytest

from shardmark.solvers.intraop.search.attempt import reserve
from shardmark.solvers.registry import LocalRun


@pytest.mark.parametrize(("seconds", "kept"), [(0.1, 0.5), (40.0, 0.8), (1000.0, 2.0)])
def test_a_share_of_the_time_within_its_range_is_kept_back(seconds, kept):
    assert reserve(LocalRun(timeout=seconds), share=0.02, least=0.5, most=2.0) == pytest.approx(kept, rel=0.01)
