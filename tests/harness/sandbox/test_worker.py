"""A run in its own process knows the referee's limits."""

from __future__ import annotations

import os
import time

from shardmark.harness.sandbox.worker import PipeRun


def test_a_run_has_the_time_until_the_deadline_of_the_referee() -> None:
    reader, writer = os.pipe()
    run = PipeRun(writer, time.monotonic() + 1000.0, seed=3, cores=2, memory=100.0)
    assert 900.0 < run.remaining() <= 1000.0
    assert (run.seed, run.cores, run.memory) == (3, 2, 100.0)
    os.close(reader)
    os.close(writer)
