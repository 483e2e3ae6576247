"""What all tests share: the mirror of the contest's files, and how hypothesis runs."""

from __future__ import annotations

import compileall
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from harness.campaign import discover as discovery
from harness.campaign.discover import SolverInfo

# A noisy machine must not fail a test, and a failure must come back: no deadline, the same examples every time.
hypothesis.settings.register_profile("shardmark", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("shardmark")

# They must reach the programs under test: a shell ignores Ctrl-C for what it puts into the background, nohup SIGHUP.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)


# Tests keep no arrays of large instances in the user's cache; those that are about arrays have a cache of their own.
os.environ["SHARDMARK_ARRAYS"] = "off"

ROOT = Path(__file__).parents[1]


def pytest_configure(config: pytest.Config) -> None:
    """Compile what programs under test import: where Python keeps no bytecode, each of hundreds would compile it."""
    if not hasattr(config, "workerinput"):  # once, before there are workers
        for package in ("harness", "instances", "leaderboard", "shardmark", "solvers"):
            compileall.compile_dir(ROOT / package, quiet=2)


@pytest.fixture(scope="session")
def mirror() -> Path:
    """A folder laid out OWNER/REPOSITORY/PATH with files of the contest, from SHARDMARK_MIRROR."""
    if "SHARDMARK_MIRROR" not in os.environ:
        pytest.skip("SHARDMARK_MIRROR names no mirror of the contest's files")
    return Path(os.environ["SHARDMARK_MIRROR"])


@pytest.fixture(scope="session")
def surveys() -> dict[tuple[Any, ...], Any]:
    """What the project's own files have been found to declare, by their hashes."""
    return {}


@pytest.fixture
def surveyed_once(monkeypatch: pytest.MonkeyPatch, surveys: dict[tuple[Any, ...], Any]) -> None:
    """The project's own files are imported again only when one has changed: that takes half a second each time."""
    ask = discovery._imported

    def imported(
        versions: Mapping[str, str], cancel: threading.Event, *, survey: bool = False
    ) -> tuple[list[SolverInfo], dict[str, str]]:
        if not survey:
            return ask(versions, cancel)
        if (key := tuple(versions.items())) not in surveys:
            surveys[key] = ask(versions, cancel, survey=True)
        found, installed = surveys[key]
        return list(found), dict(installed)

    monkeypatch.setattr(discovery, "_imported", imported)
