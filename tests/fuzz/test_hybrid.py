"""Every claim of ``hybrid`` against exact fractions; see ``tests/support/fuzz.py``."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction

from fuzz import LEAST, Attack, attempt, blocks
from oracle_hybrid import draw, draw_solution, false_reason, judge, optimum

from shardmark.instances import InputError
from shardmark.instances.hybrid import Instance
from shardmark.solvers.hybrid.dp import dp

ATTACK = Attack("hybrid", draw, draw_solution, judge, optimum, false_reason=false_reason)

#: How far the bound of `dp` may lie below the optimum: relatively, and in least positive numbers per microbatch.
SLACK, LEAST_NUMBERS = Fraction(1, 10**9), 100
#: Share of the memory that rounding errors of `dp` do not reach.
ROUNDING = 2.0**-50


@blocks
def test_every_claim_holds(seeds: range) -> None:
    ATTACK.on(seeds)


@blocks
def test_the_dynamic_program_proves_every_optimum(seeds: range) -> None:
    """Unless the optimum changes with the memory by a rounding error: then those on both sides of it are its limits."""
    for seed in seeds:
        instance = ATTACK.instance(seed)
        best, (run, _) = optimum(instance), attempt(dp, instance)
        cost = judge(instance, json.loads(json.dumps(run.solutions[-1])))[1] if run.solutions else None
        off = LEAST_NUMBERS * instance.batch * LEAST
        if not _at_most(cost, best, off):
            assert _at_most(cost, _with_memory(instance, 1 - ROUNDING), off), seed
        if best is not None and not _at_most(best, Fraction(max(run.bounds)), off):
            assert _at_most(_with_memory(instance, 1 + ROUNDING), Fraction(max(run.bounds)), off), seed


def _with_memory(instance: Instance, factor: float) -> Fraction | None:
    """Return the optimum with so many times the memory; None if nothing fits."""
    with suppress(InputError):
        return optimum(replace(instance, memory=instance.memory * factor))
    return None


def _at_most(cost: Fraction | None, other: Fraction | None, off: Fraction) -> bool:
    """Compare costs, of which None is infinite, with a tolerance."""
    return other is None or (cost is not None and cost <= other * (1 + SLACK) + off)
