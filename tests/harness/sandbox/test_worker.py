"""A run in its own process knows the referee's limits, and writes few certificates."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from shardmark.harness.sandbox import worker
from shardmark.harness.sandbox.contract import Limits, Order
from shardmark.harness.sandbox.protocol import FrameDecoder, decode
from shardmark.harness.sandbox.worker import PipeRun
from shardmark.solvers import registry


def test_a_run_has_the_time_until_the_deadline_of_the_referee() -> None:
    reader, writer = os.pipe()
    run = PipeRun(writer, time.monotonic() + 1000.0, seed=3, cores=2, memory=100.0)
    assert 900.0 < run.remaining() <= 1000.0
    assert (run.seed, run.cores, run.memory) == (3, 2, 100.0)
    os.close(reader)
    os.close(writer)


def _sent(act: Callable[[PipeRun], object], *, certify: bool = True) -> list[list[Any]]:
    """The kinds and values of the messages of a run, and the bounds of certificates."""
    reader, writer = os.pipe()
    run = PipeRun(writer, time.monotonic() + 1000.0, certify=certify)
    try:
        act(run)
        frames = FrameDecoder().feed(os.read(reader, 1 << 16))
    finally:
        os.close(reader)
        os.close(writer)
    return [[m.kind, m.value if m.cost is None else m.cost] for m in map(decode, frames)]


def test_the_first_certificate_is_written_at_once_and_the_last_at_the_end() -> None:
    asked = []

    def proof(value: int) -> registry.Proof:
        return lambda: asked.append(value) or {"kind": "any"}

    def act(run: PipeRun) -> None:
        for value in (1, 2, 3):
            run.bound(value, proof(value))
        run.bound(4)
        run.write_certificate()
        run.write_certificate()

    bounds = [["bound", 1], ["certificate", 1], ["bound", 2], ["bound", 3], ["bound", 4], ["certificate", 3]]
    assert _sent(act) == bounds
    assert asked == [1, 3]
    assert _sent(act, certify=False) == [each for each in bounds if each[0] == "bound"]


def test_a_certificate_is_written_at_once_if_the_last_one_was_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(worker.time, "monotonic", lambda: now)

    def slow() -> dict[str, str]:
        nonlocal now
        now += 1.0
        return {"kind": "any"}

    def act(run: PipeRun) -> None:
        nonlocal now
        for value, later in ((1, 0.0), (2, worker.REST - 0.5), (3, 1.0)):
            now += later
            run.bound(value, slow)

    assert [each for each in _sent(act) if each[0] == "certificate"] == [["certificate", 1], ["certificate", 3]]


def test_a_run_that_ends_with_an_error_has_its_last_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(instance: object, run: registry.Run) -> None:
        for value in (1, 2):
            run.bound(value, lambda: {"kind": "any"})
        raise ValueError("by design")

    monkeypatch.setattr(worker, "find_solver", lambda order: fails)
    monkeypatch.setattr(worker, "load_instance", lambda order: None)
    reader, writer = os.pipe()
    order = Order("pipeline", "", "", {}, "fails", __file__, 0, Limits(10.0, 100.0), certify=True)
    worker.run_order(order, writer, time.monotonic() + 10.0)
    kinds = [decode(frame).kind for frame in FrameDecoder().feed(os.read(reader, 1 << 16))[1:]]
    os.close(reader)
    os.close(writer)
    assert kinds == ["bound", "certificate", "bound", "certificate", "error"]
