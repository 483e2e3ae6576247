"""Certificates of ``hybrid``: no proof, right or mutated, proves more than the optimum of a brute force."""

from __future__ import annotations

import os

import pytest
from attacked_proofs import attack
from effort import draws
from oracle_hybrid import draw, optimum

from shardmark.solvers.hybrid.bounds.relaxed_dp import relaxed_dp
from shardmark.solvers.hybrid.bounds.simple import simple
from shardmark.solvers.hybrid.dp import dp
from shardmark.solvers.hybrid.search import search

METHODS = (simple, relaxed_dp, dp, search)
DRAWS = int(os.environ.get("SHARDMARK_DRAWS", "0")) or draws(10, 6, 200)


@pytest.mark.parametrize("seeds", [range(first, min(first + 20, DRAWS)) for first in range(0, DRAWS, 20)], ids=str)
def test_no_proof_proves_more_than_the_optimum(seeds: range):
    attack(seeds, draw, optimum, METHODS)
