"""Covers with searches that find what a test says: only complete lists without any set prove a target."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from shardmark.solvers.pipeline._set_kernels import SetList
from shardmark.solvers.pipeline.programs.cover import Cover
from shardmark.solvers.pipeline.programs.set_pool import Place, SetPool
from shardmark.solvers.pipeline.programs.stage_search import FIRST, LAST, MIDDLE
from shardmark.solvers.registry import LocalRun

NODES, TARGET = 4, 10


@dataclass
class Searches:
    """Stand-in for `StageSearch`: what lists hold, which are complete, and seconds left, one less after each search."""

    sets: list[list[bool]] = field(default_factory=list)
    complete: tuple[int, ...] = (FIRST, MIDDLE, LAST)
    seconds: float = 1000.0
    annealed: int = 0
    nodes: int = NODES

    def left(self) -> float:
        return self.seconds

    def over(self) -> bool:
        return self.seconds <= 0

    def _found(self, weight: Any, need: int, closure: int) -> SetList:
        self.seconds = max(0.0, self.seconds - 1)
        member = np.array([row for row in self.sets if weight[row].sum() >= need], dtype=bool).reshape(-1, NODES)
        proved = TARGET if closure in self.complete else 0
        return SetList(member, np.full(len(member), TARGET - 1), proved)

    def list_sets(self, weight: Any, need: int, limit: int, seconds: float, closure: int, fixed: Any) -> SetList:
        assert limit == TARGET
        assert seconds >= 0
        return self._found(weight, need, closure)

    def annealed_sets(self, weight: Any, need: int, limit: int, closure: int) -> SetList:
        assert limit == TARGET
        self.annealed += 1
        return SetList(np.zeros((0, NODES), dtype=bool), np.zeros(0, dtype=np.int64), 0)


def cover(searches: Searches, *places: Place, patience: float = 1.0) -> Cover:
    stage_search: Any = searches
    places = places or (Place(MIDDLE, 2),)
    stages = sum(place.count for place in places)
    return Cover(
        stage_search, LocalRun(timeout=100), list(places), np.full(NODES, stages / NODES), patience, SetPool(NODES)
    )


def test_complete_lists_without_sets_prove_a_target() -> None:
    searches = Searches()
    assert cover(searches, Place(MIDDLE, 2), Place(FIRST, 1), Place(LAST, 1)).prove(TARGET)
    assert searches.annealed == 0


@pytest.mark.parametrize("complete", [(), (FIRST,), (FIRST, LAST), (MIDDLE, LAST)])
def test_each_place_must_be_refuted(complete: tuple[int, ...]) -> None:
    tried = cover(Searches(complete=complete), Place(MIDDLE, 2), Place(FIRST, 1), Place(LAST, 1))
    center = tried.center
    assert not tried.prove(TARGET)
    assert not tried.stuck
    assert tried.center is center


def test_weights_move_away_from_the_sets_that_are_found() -> None:
    tried = cover(Searches(sets=[[True, True, True, False]]))
    assert tried.prove(TARGET)
    assert tried.center[3] > 1.0  # of 2: the other three weigh less than a stage


def test_no_weights_refute_sets_that_hold_all_nodes() -> None:
    tried = cover(Searches(sets=[[True, True, False, False], [False, False, True, True]]))
    assert not tried.prove(TARGET)
    assert tried.stuck


def test_sets_that_are_known_already_prove_nothing() -> None:
    searches = Searches(sets=[[True, True, True, False]])
    tried = cover(searches)
    tried.pool.add(SetList(np.array(searches.sets), np.array([TARGET]), 0), MIDDLE)  # no cheaper than the target
    assert not tried.prove(TARGET)


def test_nothing_is_searched_once_patience_is_over() -> None:
    searches = Searches(complete=(), seconds=10.0)
    assert not cover(searches, patience=0.0).prove(TARGET)
    assert (searches.seconds, searches.annealed) == (10.0, 0)
