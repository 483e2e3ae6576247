"""Children answer, fail, are stopped and are killed, and none outlives its parent's interest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np
import psutil
import pytest

from shardmark.solvers.intraop.programs import child_processes
from shardmark.solvers.intraop.programs.child_processes import TOLERATED, Workers


def collect(workers):
    return workers.collect(time.monotonic() + 60)


def test_answers_come_back_with_their_tags_whatever_their_size():
    with Workers() as workers:
        for size in (0, 1, 10**6):
            workers.launch(size, lambda size=size: np.arange(size), 60)
        answers = {}
        while len(workers):
            answers |= dict(collect(workers))
    assert answers[0] is None
    assert answers[1].tolist() == [0]
    assert (answers[10**6] == np.arange(10**6)).all()


def test_a_child_without_an_answer_is_no_failure():
    with Workers() as workers:
        for _ in range(TOLERATED + 2):
            workers.launch("tag", lambda: None, 60)
            assert collect(workers) == [("tag", None)]


def test_children_that_keep_failing_are_an_error(capfd):
    def fail():
        raise ValueError("as it happens")

    with Workers() as workers:
        for _ in range(TOLERATED):
            workers.launch(None, fail, 60)
            assert collect(workers) == [(None, None)]
        workers.launch(None, lambda: os.kill(os.getpid(), signal.SIGTERM), 60)
        with pytest.raises(RuntimeError, match=f"{TOLERATED + 1} children in a row failed, the last .* -15"):
            collect(workers)
    assert "as it happens" in capfd.readouterr().err


def test_a_late_child_is_asked_to_stop():
    def work():
        asked = []
        signal.signal(signal.SIGINT, lambda *_: asked.append(1))
        while not asked:
            time.sleep(0.01)
        return np.array([7])

    with Workers() as workers:
        workers.launch(None, work, 0.3)
        assert collect(workers)[0][1].tolist() == [7]


def test_a_child_that_is_asked_to_stop_before_it_begins_stops(monkeypatch):
    fork_at_once = os.fork

    def fork():
        """A signal also ends code that runs in the child before its job, as hooks of the interpreter do."""
        process = fork_at_once()
        if not process:
            with suppress(KeyboardInterrupt):
                while signal.SIGINT not in signal.sigpending():
                    time.sleep(0.01)
        return process

    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(child_processes, "GRACE", 600)  # it is not killed instead
    with Workers() as workers:
        workers.launch("tag", lambda: time.sleep(600), 0)
        assert workers.collect(time.monotonic() + 10) == [("tag", None)]


@pytest.mark.gate
def test_a_child_that_does_not_stop_is_killed():
    def work():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        time.sleep(600)

    with Workers() as workers:
        workers.launch(None, work, 0.2)
        assert collect(workers) == [(None, None)]


def test_leaving_kills_what_still_runs():
    with Workers() as workers:
        for _ in range(3):
            workers.launch(None, lambda: time.sleep(600), 600)
        assert workers.collect(time.monotonic() + 0.1) == []
        assert len(workers) == 3
    assert len(workers) == 0


def test_a_child_dies_with_its_parent():
    program = (
        "import os, time; from shardmark.solvers.intraop.programs.child_processes import Workers; workers = Workers()\n"
        "workers.launch(None, lambda: (os.write(2, b'%d\\n' % os.getpid()), time.sleep(600)), 600); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True) as parent:
        child = psutil.Process(int(parent.stderr.readline()))
        parent.kill()
    patience = time.monotonic() + 60
    while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < patience
        time.sleep(0.01)


def test_children_print_nothing(capfd):
    with Workers() as workers:
        workers.launch(None, lambda: os.write(1, b"noise"), 60)
        collect(workers)
    assert capfd.readouterr().out == ""


def test_children_that_are_killed_at_the_end_have_not_failed():
    with Workers() as workers:
        for _ in range(TOLERATED + 1):
            workers.launch(None, lambda: time.sleep(600), 600)
    assert len(workers) == 0
