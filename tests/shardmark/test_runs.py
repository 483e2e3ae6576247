"""Runs of a series share a supervisor, which ends with the series."""

from __future__ import annotations

import pytest

import shardmark as sm
from shardmark import runs
from shardmark.harness.sandbox.backends.choice import Backend
from shardmark.harness.sandbox.supervisor import Supervisor


class Counting:
    """A backend that keeps every supervisor that it hands out, and those that were closed."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.opened: list[Supervisor] = []
        self.closed: list[Supervisor] = []

    def supervisor(self) -> Supervisor:
        """Return another supervisor of the backend."""
        made = self.backend.supervisor()
        close = made.close

        def closed() -> None:
            self.closed.append(made)
            close()

        made.close = closed  # type: ignore[method-assign]
        self.opened.append(made)
        return made


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """The backend of runs, which counts."""
    counting = Counting(runs.backend("auto", "auto"))
    monkeypatch.setattr(runs, "backend", lambda *_: counting)
    return counting


def solved() -> None:
    assert sm.solve("chain", "random-1", timeout=30).status == "ok"


def test_a_series_has_one_supervisor_which_it_ends(backend: Counting) -> None:
    with runs.series():
        solved()
        with runs.series():
            solved()
        assert len(backend.opened) == 1
        assert not backend.closed
    assert backend.closed == backend.opened
    solved()
    assert len(backend.opened) == 2


def test_a_series_that_fails_ends_its_supervisor(backend: Counting) -> None:
    @runs.series()
    def interrupted() -> None:
        solved()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert backend.closed == backend.opened
    solved()
    assert len(backend.opened) == 2
